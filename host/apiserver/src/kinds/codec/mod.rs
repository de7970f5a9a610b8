//! JSON of typed objects as Go's decoder reads and its encoder writes it.

mod custom;
pub(crate) mod decode;
mod encode;
mod fault;
pub(crate) mod json;
mod quantity;
mod time;
pub(crate) mod types;

pub(crate) use encode::typed_json;
pub use encode::write;
pub use json::SyntaxError;
pub use quantity::{Quantity, QuantityError};
pub use time::Instant;
