//! Ranges of sizes of values, which costs depend on.

/// A range of sizes: characters of a string, elements of a list or entries of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub min: u64,
    pub max: u64,
}

impl Size {
    pub const UNKNOWN: Self = Self {
        min: 0,
        max: u64::MAX,
    };

    pub fn of(size: usize) -> Self {
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        Self {
            min: size,
            max: size,
        }
    }

    /// The size of both values together.
    pub fn plus(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    /// The product of two sizes.
    pub fn times(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    /// The smallest range that includes both.
    pub fn union(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }

    /// The greatest cost of work that costs `factor` per unit of size.
    pub fn cost(self, factor: f64) -> u64 {
        multiply(self.max, factor)
    }
}

/// Multiplies a cost or size, rounding up.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "casts of floats stop at the bounds of the integer"
)]
pub fn multiply(value: u64, factor: f64) -> u64 {
    (value as f64 * factor).ceil() as u64
}
