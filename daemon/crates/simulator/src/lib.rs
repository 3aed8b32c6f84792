//! Many OLSRv2 routers in virtual time.
//!
//! A [`Mesh`] runs the routers and carries their packets; a [`Field`] places
//! radios and says who hears whom; [`truth`] knows the right routes. All is
//! seeded: the same calls give the same run.
#![forbid(unsafe_code)]

mod field;
mod mesh;
pub mod truth;

pub use field::Field;
pub use mesh::{Mesh, NodeId, Port, Radio, RADIO};
