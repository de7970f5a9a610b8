//! The filter of a table, as k9s takes it: a text without regard to case, or `!` and a text that a
//! row must not contain.

use operetta_core::object::ObjectKey;

/// A filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The text as it was typed.
    text: String,
    /// The text to find, in lower case.
    wanted: String,
    is_inverse: bool,
}

impl Filter {
    /// Creates a filter.
    pub fn new(text: &str) -> Self {
        let (is_inverse, wanted) = text
            .strip_prefix('!')
            .map_or((false, text), |rest| (true, rest));

        Self {
            text: text.to_owned(),
            wanted: wanted.trim().to_lowercase(),
            is_inverse,
        }
    }

    /// Returns the text as it was typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Reports whether the row of an object with these cells is shown.
    pub fn accepts<'a>(&self, key: &ObjectKey, mut cells: impl Iterator<Item = &'a str>) -> bool {
        if self.wanted.is_empty() {
            return true;
        }

        let contains = |text: &str| text.to_lowercase().contains(&self.wanted);
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let found = contains(&format!("{namespace}/{}", key.name)) || cells.any(contains);

        found != self.is_inverse
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_found_in_key_and_cells_without_case() {
        let key = ObjectKey::namespaced("team", "web");
        for (text, accepts) in [
            ("", true),
            ("WEB", true),
            ("team/web", true),
            ("RUN", true),
            ("db", false),
            ("!db", true),
            ("!web", false),
            ("!", true),
        ] {
            assert_eq!(
                Filter::new(text).accepts(&key, ["Running"].into_iter()),
                accepts,
                "{text}"
            );
        }
    }
}
