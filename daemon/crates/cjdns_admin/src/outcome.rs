//! Formats the outcome of a question as an answer.

use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use overlay::Contact;
use switch::{ErrorCode, Label};

use crate::answer::{Answer, Field};
use crate::router::{Outcome, Pong};
use crate::words::{address, contact, milliseconds, scheme};

/// The form of a function's answer about the outcome of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `SwitchPinger_ping` over this path.
    Control { path: Label },
    /// `RouterModule_pingNode` of this node.
    Ping { of: Contact },
    /// `RouterModule_getPeers`: labels are relative to the node that answers.
    Peers,
    /// `RouterModule_findNode` and `_nextHop`: labels are relative to this node and lead through the node that answers.
    Nodes { via: Label },
}

impl Form {
    /// Returns the answer, which came `elapsed` after the question.
    pub(crate) fn answer(self, outcome: &Outcome, elapsed: Duration) -> Answer {
        let answer = Answer::new().with("ms", milliseconds(elapsed));
        match self {
            Self::Control { path } => control(answer, outcome).with("path", format!("{path}")),
            Self::Ping { of } => ping(answer, outcome, &of),
            Self::Peers => nodes(answer, outcome, "peers", Some),
            Self::Nodes { via } => nodes(answer, outcome, "nodes", |node| {
                let path = node.path.after(via)?;
                Some(Contact { path, ..node })
            }),
        }
    }
}

fn control(answer: Answer, outcome: &Outcome) -> Answer {
    match outcome {
        Outcome::Pong(reported) => pong(answer, reported).with("result", "pong"),
        Outcome::Error(ErrorCode::LOOP) => answer.with("result", "err_loop"),
        Outcome::Error(_) => answer.with("result", "err_switch"),
        Outcome::Silence => answer.with("result", "timeout"),
        Outcome::Reply { .. } => answer.with("result", "err_unknown"),
    }
}

fn pong(answer: Answer, pong: &Pong) -> Answer {
    answer
        .with("data", pong.opaque.clone())
        .with_some("key", pong.key.map(|key| format!("{key}")))
        .with_some("lladdr", pong.lower.clone())
        .with_some("rpath", pong.return_path.map(|path| format!("{path}")))
        .with_some("snode", pong.snode.as_ref().map(contact))
        .with("version", pong.version)
}

fn ping(answer: Answer, outcome: &Outcome, of: &Contact) -> Answer {
    let answer = answer
        .with("deprecation", "from,protocol,version will soon be removed")
        .with("version", "unknown");
    let Outcome::Reply { version, .. } = outcome else {
        return answer.with("result", "timeout");
    };
    let from = [
        &address(of.key.address())[..],
        format!("@{}", of.path).as_bytes(),
    ]
    .concat();
    let of = Contact {
        version: *version,
        ..*of
    };
    answer
        .with("addr", contact(&of))
        .with("from", from)
        .with("protocol", *version)
        .with("result", "pong")
}

fn nodes(
    answer: Answer,
    outcome: &Outcome,
    name: &'static str,
    seen: impl Fn(Contact) -> Option<Contact>,
) -> Answer {
    let answer = answer.with("error", "none");
    let Outcome::Reply {
        nodes,
        scheme: theirs,
        ..
    } = outcome
    else {
        return answer.with("result", "timeout");
    };
    let reported: Vec<_> = nodes.iter().copied().filter_map(seen).collect();
    answer
        .with(name, reported.iter().map(contact).collect::<Field>())
        .with("encodingScheme", scheme(theirs))
        .with("result", name)
}
