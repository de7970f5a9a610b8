//! Ranges of sizes of values, which costs depend on.

/// A range of sizes: of the characters of a string, the elements of a list or the entries of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The least size.
    pub min: u64,
    /// The greatest size.
    pub max: u64,
}

impl Size {
    /// Any size.
    pub const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    /// Returns one size.
    pub fn of(size: usize) -> Self {
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        Self { min: size, max: size }
    }

    /// Returns the sizes of two values together.
    pub fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    /// Returns the products of sizes.
    pub fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// Returns the sizes of either value.
    pub fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// Returns the greatest cost of work that has a cost for each unit.
    pub fn cost(self, factor: f64) -> u64 {
        multiply(self.max, factor)
    }
}

/// Multiplies a cost or size, and rounds up.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "casts of floats stop at the bounds of the integer"
)]
pub fn multiply(value: u64, factor: f64) -> u64 {
    (value as f64 * factor).ceil() as u64
}
