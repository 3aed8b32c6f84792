//! What a router makes of signed messages, rule by rule (docs/development/adr/0092).

mod clocks;
mod edges;
mod floods;
mod identity;
mod links;
mod peers;
mod replay;
mod waiting;
