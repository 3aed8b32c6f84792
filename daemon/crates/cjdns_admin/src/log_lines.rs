//! AdminLog: the functions with which callers subscribe to the router's log.

use alloc::format;

use crate::call::{Call, Called, Done};
use crate::subscriptions::{Filter, LogLevel};

/// Largest number of lines that one `AdminLog_logMany` may log.
const MAX_LOG_MANY: u32 = 1000;
/// Number of digits in a stream's name.
const STREAM_DIGITS: usize = 16;
const UNKNOWN_LEVEL: &str =
    "level is unknown, allowed are KEYS, DEBUG, INFO, WARN, ERROR and CRITICAL";

/// Subscribes the caller. Without `level` it gets every line from `DEBUG` up.
pub(crate) fn subscribe<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let arguments = &call.arguments;
    let level = match arguments.octets("level").filter(|name| !name.is_empty()) {
        None => LogLevel::Debug,
        Some(name) => LogLevel::named(name).ok_or(UNKNOWN_LEVEL)?,
    };
    let file = arguments.octets("file").filter(|file| !file.is_empty());
    // The tools of cjdns send 0 or -1 for any line.
    let line = arguments.number::<i64>("line")?;
    let line = line.and_then(|line| u32::try_from(line).ok());
    Ok(Done::Subscribe(Filter {
        level,
        file: file.map(<[u8]>::to_vec),
        line: line.filter(|line| *line > 0),
    }))
}

/// Ends a subscription.
pub(crate) fn unsubscribe<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let name = call.arguments.octets("streamId").unwrap_or_default();
    let is_name = name.len() == STREAM_DIGITS && name.iter().all(u8::is_ascii_hexdigit);
    let digits = core::str::from_utf8(name).ok().filter(|_| is_name);
    let stream = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    Ok(Done::Unsubscribe(stream.ok_or("Invalid streamId.")?))
}

/// Logs `count` lines, with which a tool can test its subscription.
pub(crate) fn log_many<'a>(call: &mut Call<'a, '_>) -> Called<'a> {
    let count: i64 = call.arguments.number("count")?.unwrap_or(0);
    match u32::try_from(count)
        .ok()
        .filter(|count| *count <= MAX_LOG_MANY)
    {
        Some(count) => Ok(Done::LogMany(count)),
        None => Err(format!("count is {count}, allowed is 0 to {MAX_LOG_MANY}")),
    }
}
