//! SessionManager: the inner sessions.

use crate::answer::{Answer, Field};
use crate::call::{Call, Called};
use crate::now::Now;
use crate::router::Session;
use crate::words::{address, contact, received, stage_name, with_more, ENTRIES};

pub(crate) fn handles<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let page = call.arguments.page(ENTRIES.handles)?;
    let listed = call.router.handles(page);
    let answer = Answer::new()
        .with("handles", Field::from_iter(listed.entries))
        .with("total", listed.total);
    Ok(with_more(answer, page, listed.total).into())
}

pub(crate) fn session<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let handle = call.arguments.number("handle")?;
    shown(
        handle.and_then(|handle| call.router.session(handle)),
        call.now,
    )
}

pub(crate) fn session_by_address<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let asked = call.arguments.address("ip6")?;
    shown(
        asked.and_then(|asked| call.router.session_with(asked)),
        call.now,
    )
}

pub(crate) fn shown<'a>(session: Option<Session>, now: Now) -> Called<'a> {
    let session = session.ok_or("no such session")?;
    Ok(received(&session.received)
        .with("addr", contact(&session.contact))
        .with("handle", session.handle)
        .with("ip6", address(session.contact.key.address()))
        .with("metric", session.metric)
        .with("noiseProto", false)
        .with("sendHandle", session.send_handle)
        .with("state", stage_name(session.stage))
        .with("timeOfLastUsage", now.unix_milliseconds(session.used))
        .into())
}
