//! Parses untrusted JSON texts into trees, provided they are small: a tree takes up to a hundred
//! times the bytes of its text.

use serde_json::Value;

/// The maximum number of values (scalars, lists and objects) in a tree.
pub const MAX_VALUES: usize = 50_000;
/// The maximum sum of these values' depths. It bounds the cost of comparing two trees.
const MAX_NESTED: usize = 10 * MAX_VALUES;

/// Parses a JSON text. Returns None if it is too large, too deep, or not JSON.
pub fn tree(json: &str) -> Option<Value> {
    let (values, nested) = values(json);
    if values > MAX_VALUES || nested > MAX_NESTED {
        return None;
    }
    serde_json::from_str(json).ok()
}

/// Upper bounds of the number of values in a JSON text, and of the sum of their depths.
fn values(json: &str) -> (usize, usize) {
    let mut count = 1;
    let mut nested = 1;
    let mut depth = 1_usize;
    let mut string = false;
    let mut escaped = false;

    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if string => escaped = true,
            b'"' => string = !string,
            _ if string => {}
            // Each value but the root follows a comma, or is the first in a list or an object.
            b',' => {
                count += 1;
                nested += depth;
            }
            b'[' | b'{' => {
                depth += 1;
                count += 1;
                nested += depth;
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }

    (count, nested)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_counts_too_few_values() {
        for (json, count, nested) in [
            ("1", 1, 1),
            ("[]", 2, 3),
            ("[1]", 2, 3),
            ("[1,2]", 3, 5),
            ("[[1],2]", 4, 8),
            (r#"{"a":"b,[{\",","c":[]}"#, 4, 8),
        ] {
            assert_eq!(values(json), (count, nested), "{json}");
        }
    }

    #[test]
    fn rejects_text_with_too_many_values() {
        let list = |count: usize| format!("[{}0]", "0,".repeat(count - 1));
        assert!(tree(&list(MAX_VALUES - 1)).is_some());
        assert!(tree(&list(MAX_VALUES)).is_none());
        assert!(tree("{").is_none());
    }
}
