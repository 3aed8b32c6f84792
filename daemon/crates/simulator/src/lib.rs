//! Runs many OLSRv2 routers in virtual time.
//!
//! A [`Mesh`] runs the routers and delivers their packets. A [`Field`] places radios and determines which of them hear
//! each other. [`truth`] calculates the right routes. All randomness is seeded: the same calls give the same run.
#![forbid(unsafe_code)]

mod field;
mod mesh;
pub mod truth;

pub use field::Field;
pub use mesh::{verifications, Mesh, NodeId, Port, Radio, Recorded, RADIO};
