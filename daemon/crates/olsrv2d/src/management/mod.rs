//! How others look into the router: a text interface that orchestrators of
//! olsrd2 can read, and a stream of changes.

pub mod changes;
mod netjson;
mod olsrd2;
pub mod state;
pub mod telnet;
