//! The commands of the text interface.

use super::answer::{Answer, Piece, Render};
use super::netjson::netjsoninfo;
use super::olsrd2::{layer2info, nhdpinfo, olsrv2info, Table};
use super::refusals::refusals;
use super::state::State;

use olsrv2::Signatures;
use serde_json::{json, Value};

const HELP: &str =
    "Available commands: netjsoninfo olsrv2info nhdpinfo layer2info refusals trusted signatures version help quit\n";

/// An answer to one command.
pub enum Reply {
    /// Text.
    Answer(Answer),
    /// The end of the session.
    Quit,
}

/// Returns the answer to a command with its words.
pub fn answer(command: &str, state: &State) -> Reply {
    let words: Vec<&str> = command.split_whitespace().collect();
    Reply::Answer(match words.as_slice() {
        [] => Answer::default(),
        ["quit" | "exit"] => return Reply::Quit,
        ["help"] => Answer::text(HELP),
        ["version"] => Answer::text(concat!("olsrv2d ", env!("CARGO_PKG_VERSION"), "\n")),
        ["refusals"] => {
            let reported = refusals(&state.refusals, state.now, &state.names);
            Answer::text(format!("{reported}\n"))
        }
        ["signatures"] => Answer::text(format!("{}\n", signatures(state))),
        ["trusted"] => {
            let render: Render =
                Box::new(|state, index| Some(format!("{}\n", state.trusted.get(index)?)));
            Answer::new([Piece::Rows(state.trusted.len(), "", render)])
        }
        ["netjsoninfo", subjects @ ..] => netjsoninfo(state, subjects)
            .unwrap_or_else(|why| Answer::text(format!("Error, {why}\n"))),
        ["olsrv2info", words @ ..] => tables(
            words,
            |subject| olsrv2info(state, subject),
            "originator, old_originator, local, node, edge, attached_network, lan, route",
        ),
        ["nhdpinfo", words @ ..] => tables(
            words,
            |subject| nhdpinfo(state, subject),
            "interface, link, link_twohop, neighbor",
        ),
        ["layer2info", words @ ..] => {
            tables(words, |subject| layer2info(state, subject), "neighbor")
        }
        [unknown, ..] => Answer::text(format!("Error, unknown command '{unknown}'\n")),
    })
}

/// Returns what the configuration asks for, whether this router signs, and what was verified and refused.
fn signatures(state: &State) -> Value {
    let mode = match state.config.signatures {
        Signatures::Off => "off",
        Signatures::Prefer => "prefer",
        Signatures::Require => "require",
    };
    json!({
        "signatures": mode,
        "signer": state.signer,
        "verified": state.counters.verified,
        "forged": state.counters.forged,
        "not_signed": state.counters.not_signed,
        "replayed": state.counters.replayed,
    })
}

fn tables(words: &[&str], table: impl Fn(&str) -> Option<Table>, known: &str) -> Answer {
    let (json, subject) = match words {
        ["json" | "jsonraw", subject] => (true, *subject),
        [subject] => (false, *subject),
        _ => return Answer::text(format!("Error, one subject is expected: {known}\n")),
    };
    match table(subject) {
        Some(table) if json => table.into_json(),
        Some(table) => table.into_text(),
        None => Answer::text(format!("Error, unknown subject '{subject}': {known}\n")),
    }
}
