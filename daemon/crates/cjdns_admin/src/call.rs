//! A call of a function: its inputs and its result.

use core::time::Duration;

use crate::answer::Answer;
use crate::arguments::{Argument, Arguments, Kind, Wrong};
use crate::now::Now;
use crate::outcome::Form;
use crate::router::{Ask, Refused, Router};
use crate::search::Search;
use crate::subscriptions::Filter;

/// An entry in the table of functions.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    /// Whether it needs no authentication.
    pub(crate) open: bool,
    pub(crate) arguments: &'static [Argument],
    pub(crate) run: Run,
}

pub(crate) type Run = for<'a, 'r> fn(&mut Call<'a, 'r>) -> Called<'a>;

/// A call of a function.
pub(crate) struct Call<'a, 'r> {
    pub(crate) arguments: Arguments<'a>,
    pub(crate) router: &'r mut dyn Router,
    pub(crate) now: Now,
    /// Whether the caller was authenticated recently.
    pub(crate) is_known: bool,
}

/// The result of a call.
pub(crate) enum Done<'a> {
    /// An answer.
    Answer(Answer),
    /// A search, whose answers follow later.
    Search(Search),
    /// A subscription to the log.
    Subscribe(Filter),
    /// The end of a subscription, named by its stream.
    Unsubscribe(u64),
    /// A request for this many log lines.
    LogMany(u32),
    /// A question to another node.
    Ask {
        ask: Ask<'a>,
        timeout: Duration,
        form: Form,
    },
}

/// What a function returns.
pub(crate) type Called<'a> = Result<Done<'a>, Wrong>;

pub(crate) const fn required(name: &'static str, kind: Kind) -> Argument {
    Argument {
        name,
        required: true,
        kind,
    }
}

pub(crate) const fn optional(name: &'static str, kind: Kind) -> Argument {
    Argument {
        name,
        required: false,
        kind,
    }
}

pub(crate) const fn open(name: &'static str, arguments: &'static [Argument], run: Run) -> Function {
    Function {
        name,
        open: true,
        arguments,
        run,
    }
}

pub(crate) const fn closed(
    name: &'static str,
    arguments: &'static [Argument],
    run: Run,
) -> Function {
    Function {
        name,
        open: false,
        arguments,
        run,
    }
}

impl From<Answer> for Done<'_> {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

impl From<Refused> for Wrong {
    fn from(Refused(reason): Refused) -> Self {
        reason
    }
}
