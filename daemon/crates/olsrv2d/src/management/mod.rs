//! Management interfaces: a text interface that orchestrators of olsrd2 can read, and a stream of changes.

mod answer;
mod avoided;
mod cells;
pub mod change_lines;
pub mod changes;
mod commands;
mod listener;
mod netjson;
mod olsrd2;
pub mod open;
mod portions;
pub mod refusals;
mod share;
pub mod state;
pub mod text;
mod trusted_keys;
