//! Trust classes: sets of namespaces whose plugins share no process with those of others.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::names::is_dns_label;

/// The longest name of a class, in bytes: it becomes part of the names of Deployments and of label
/// values, which have at most 63.
const MAX: usize = 40;

/// The name of a trust class: a DNS label of at most 40 bytes. The label [`crate::labels::CLASS`]
/// of a namespace has it, and the configuration of the hosts that run the namespace's plugins.
///
/// ```
/// use operetta_api::Class;
///
/// let class: Class = "untrusted".parse()?;
/// assert_eq!(class.as_str(), "untrusted");
/// assert!("Un_trusted".parse::<Class>().is_err());
/// # Ok::<(), operetta_api::InvalidClass>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Class(String);

/// A text isn't the name of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidClass(String);

impl fmt::Display for InvalidClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not the name of a class: use at most {MAX} lower case letters, digits and '-', with a letter or a \
             digit at either end",
            self.0
        )
    }
}

impl std::error::Error for InvalidClass {}

impl Class {
    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Class {
    type Err = InvalidClass;

    fn from_str(name: &str) -> Result<Self, InvalidClass> {
        name.to_owned().try_into()
    }
}

impl TryFrom<String> for Class {
    type Error = InvalidClass;

    fn try_from(name: String) -> Result<Self, InvalidClass> {
        match name.len() <= MAX && is_dns_label(&name) {
            true => Ok(Self(name)),
            false => Err(InvalidClass(name)),
        }
    }
}

impl From<Class> for String {
    fn from(class: Class) -> Self {
        class.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_fits_into_names_of_objects() {
        let longest = "a".repeat(MAX);
        for name in ["untrusted", "tier-2", &longest] {
            assert_eq!(name.parse::<Class>().expect("valid").as_str(), name);
        }

        let too_long = "a".repeat(MAX + 1);
        for name in ["", "A", "a.b", "a/b", "-a", "a_b", " a", &too_long] {
            let error = name.parse::<Class>().expect_err(name).to_string();
            assert!(error.starts_with(&format!("{name:?}")), "{error}");
        }
    }

    #[test]
    fn class_is_a_string_on_the_wire() {
        let class: Class = serde_json::from_str("\"a\"").expect("a class");
        assert_eq!(serde_json::to_string(&class).expect("JSON"), "\"a\"");

        let error = serde_json::from_str::<Class>("\"A\"")
            .expect_err("invalid")
            .to_string();
        assert!(error.contains("lower case"), "{error}");
    }
}
