//! JSON of typed objects as Go's decoder reads and its encoder writes it.

mod custom;
pub(crate) mod decode;
mod encode;
mod fault;
mod time;
pub(crate) mod types;

pub use crate::apimachinery::quantity::{Quantity, QuantityError};
pub(crate) use encode::typed_json;
pub use encode::write;
pub use time::Instant;
