//! Management interfaces: a text interface that orchestrators of olsrd2 can read, and a stream of changes.

mod answer;
pub mod changes;
mod netjson;
mod olsrd2;
pub mod refusals;
mod share;
pub mod state;
pub mod text;
