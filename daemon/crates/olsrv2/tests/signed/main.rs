//! What a router makes of signed messages, rule by rule (docs/development/adr/0092).

mod bindings;
mod clocks;
mod edges;
mod floods;
mod hosts;
mod identity;
mod ipv4;
mod links;
mod networks;
mod peers;
mod relays;
mod replay;
mod theft;
mod tokens;
mod waiting;
mod words;
