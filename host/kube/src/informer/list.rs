//! Splits a list into its objects while it arrives. That way a response of hundreds of megabytes is
//! never in memory at once, and an invalid object does not hide the others.

use operetta_core::status::{ApiError, ErrorKind};
use serde::{Deserialize, de::IgnoredAny};

/// The largest object we accept. The API server accepts no request of over 3 MiB, and etcd no value
/// of over 1.5 MiB.
const MAX_ITEM: usize = 32 << 20;

/// Finds the elements of `items` in the bytes of a list, whatever the boundaries of its chunks.
#[derive(Default)]
pub struct Items {
    /// Bytes still needed: the envelope around `items`, or an incomplete element inside.
    buffer: Vec<u8>,
    /// Position of the next byte in `buffer`.
    at: usize,
    /// The bytes before `items`, including its bracket.
    head: Vec<u8>,
    position: Position,
    /// Number of open objects and arrays.
    depth: usize,
    in_string: bool,
    /// Whether the string's next byte is escaped.
    escaped: bool,
    /// Range of the last string at depth 1: a key, if a bracket follows.
    key: (usize, usize),
    item: Option<usize>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Position {
    #[default]
    Before,
    Inside,
    After,
}

/// A list's metadata (apimachinery's [`metav1.ListMeta`]).
///
/// [`metav1.ListMeta`]: https://github.com/kubernetes/apimachinery/blob/v0.36.2/pkg/apis/meta/v1/types.go#L61
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ListMeta {
    /// The list's resourceVersion, the same on all its pages.
    pub resource_version: String,
    /// The token of the next page; empty on the last page.
    #[serde(default)]
    pub r#continue: String,
}

impl Items {
    /// Adds bytes, and passes complete elements to `each`.
    ///
    /// # Errors
    /// `Other` for invalid JSON, or an element that is too long.
    pub fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) -> Result<(), ApiError> {
        self.buffer.extend_from_slice(bytes);
        while let Some(&byte) = self.buffer.get(self.at) {
            if self.in_string {
                self.go_through_string();
                continue;
            }

            match byte {
                b'"' => {
                    self.in_string = true;
                    self.begin_item();
                    if self.depth == 1 {
                        self.key = (self.at + 1, self.at + 1);
                    }
                }
                b'{' | b'[' => {
                    self.begin_item();
                    self.depth += 1;
                    let (from, to) = self.key;
                    if self.position == Position::Before
                        && self.depth == 2
                        && byte == b'['
                        && &self.buffer[from..to] == b"items"
                    {
                        self.head = self.buffer.drain(..=self.at).collect();
                        (self.position, self.at) = (Position::Inside, 0);
                        continue;
                    }
                }
                b'}' | b']' => {
                    if self.position == Position::Inside && self.depth == 2 {
                        self.end_item(&mut each);
                        self.position = Position::After;
                        // Elements passed on are not part of the envelope, whichever chunk they
                        // came in.
                        self.buffer.drain(..self.at);
                        self.at = 0;
                    }
                    let too_many = || no_list("a bracket too many", &self.buffer);
                    self.depth = self.depth.checked_sub(1).ok_or_else(too_many)?;
                }
                b',' if self.depth == 2 => self.end_item(&mut each),
                byte if byte.is_ascii_whitespace() => {}
                _ => self.begin_item(),
            }

            self.at += 1;
        }

        if self.position == Position::Inside {
            let kept = self.item.unwrap_or(self.at);
            self.buffer.drain(..kept);
            self.at -= kept;
            self.item = self.item.map(|_| 0);
        }

        if self.buffer.len() > MAX_ITEM {
            return Err(no_list(
                &format!("a part of it has over {MAX_ITEM} bytes"),
                &self.buffer,
            ));
        }

        Ok(())
    }

    /// Skips to the end of the string, or of the bytes so far.
    fn go_through_string(&mut self) {
        if std::mem::take(&mut self.escaped) {
            self.at += 1;
            return;
        }
        let Some(found) = memchr::memchr2(b'"', b'\\', &self.buffer[self.at..]) else {
            self.at = self.buffer.len();
            return;
        };

        self.at += found;
        if self.buffer[self.at] == b'"' {
            self.in_string = false;
            if self.depth == 1 {
                self.key.1 = self.at;
            }
        } else {
            self.escaped = true;
        }

        self.at += 1;
    }

    fn begin_item(&mut self) {
        if self.position == Position::Inside && self.depth == 2 && self.item.is_none() {
            self.item = Some(self.at);
        }
    }

    fn end_item(&mut self, each: &mut impl FnMut(&[u8])) {
        if self.position == Position::Inside
            && let Some(start) = self.item.take()
        {
            each(self.buffer[start..self.at].trim_ascii_end());
        }
    }
}

impl Items {
    /// Returns the metadata at the end of the response.
    ///
    /// # Errors
    /// `Unavailable` for a truncated response, `Other` for a response that is not a list.
    pub fn end(mut self) -> Result<ListMeta, ApiError> {
        if self.position == Position::Inside || self.depth > 0 {
            return Err(ApiError::new(
                ErrorKind::Unavailable,
                "the API server closed the list early",
            ));
        }

        let mut envelope = self.head;
        envelope.append(&mut self.buffer);
        #[derive(Deserialize)]
        struct Envelope {
            metadata: ListMeta,
            #[serde(default)]
            items: Option<Vec<IgnoredAny>>,
        }

        let Envelope { metadata, items } = serde_json::from_slice(&envelope)
            .map_err(|error| no_list(&error.to_string(), &envelope))?;
        match items {
            // For example, the field's name may contain an escape. Taking this for an empty list
            // would delete everything.
            Some(items) if !items.is_empty() => Err(no_list("its items were not found", &envelope)),
            _ => Ok(metadata),
        }
    }
}

fn no_list(why: &str, text: &[u8]) -> ApiError {
    let shown: String = String::from_utf8_lossy(text)
        .trim_start()
        .chars()
        .take(64)
        .collect();
    ApiError::new(
        ErrorKind::Other,
        format!("the response is not a list: {why}: {shown:?}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the items and the metadata of a text that arrives in chunks of this size.
    fn read(text: &[u8], chunk: usize) -> Result<(Vec<String>, ListMeta), ApiError> {
        let mut items = Items::default();
        let mut found = Vec::new();
        for bytes in text.chunks(chunk) {
            items.feed(bytes, |item| {
                found.push(String::from_utf8_lossy(item).into_owned());
            })?;
        }
        Ok((found, items.end()?))
    }

    fn meta(resource_version: &str, next: &str) -> ListMeta {
        ListMeta {
            resource_version: resource_version.to_owned(),
            r#continue: next.to_owned(),
        }
    }

    #[test]
    fn items_survive_any_chunk_boundary() {
        let items = [
            r#"{"a":"]}\",[{\\","items":[{"b":1}]}"#,
            "{}",
            r#"{"items":[[],[{}]],"ü":"\u0022]"}"#,
            "1",
            r#""x,]\"""#,
            "null",
            "[ ]",
        ];
        let inside = items.join(" , ");
        for text in [
            format!(
                r#"{{"kind":"PodList","metadata":{{"resourceVersion":"5","continue":"c"}},"items":[{inside}]}}"#
            ),
            format!(
                "{{\"items\" :\n[ {inside}\n],\"x\":[\"items\",[1]],\"metadata\":{{\"resourceVersion\":\"5\",\"continue\":\"c\"}}}}\n"
            ),
            format!(
                r#"{{"x":"items","y":[],"z":{{"items":[7]}},"items":[{inside}],"metadata":{{"resourceVersion":"5","continue":"c"}}}}"#
            ),
        ] {
            for chunk in (1..40).chain([text.len()]) {
                let (found, envelope) = read(text.as_bytes(), chunk).expect(&text);
                assert_eq!(
                    (found.as_slice(), &envelope),
                    (items.map(str::to_owned).as_slice(), &meta("5", "c")),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn invalid_item_hides_no_other() {
        let text = br#"{"metadata":{"resourceVersion":"5"},"items":[{"a":1},{"b"},{"c":3}]}"#;
        for chunk in 1..=text.len() {
            let (found, envelope) = read(text, chunk).expect("a list");
            assert_eq!(
                found,
                [r#"{"a":1}"#, r#"{"b"}"#, r#"{"c":3}"#],
                "in pieces of {chunk}"
            );
            assert_eq!(envelope, meta("5", ""));
        }
    }

    #[test]
    fn rejects_list_whose_items_are_not_found() {
        for items in [
            r#""it\u0065ms":[{}]"#,
            r#""items":{}"#,
            r#""items":[],"items":[{}]"#,
        ] {
            let text = format!(r#"{{"metadata":{{"resourceVersion":"5"}},{items}}}"#);
            let error = read(text.as_bytes(), 4).expect_err(items);
            assert!(
                error.status.message.contains("the response is not a list"),
                "{items}: {error}"
            );
        }
    }

    #[test]
    fn missing_or_null_items_are_an_empty_list() {
        for items in ["", r#","items":null"#, r#","items":[]"#, r#","items":[ ]"#] {
            let text = format!(r#"{{"metadata":{{"resourceVersion":"5"}}{items}}}"#);
            assert_eq!(
                read(text.as_bytes(), 3).expect(items),
                (Vec::new(), meta("5", "")),
                "{items}"
            );
        }
    }

    #[test]
    fn refuses_non_lists_and_truncated_lists() {
        for (text, why) in [
            ("<html>gateway</html>", "<html>gateway"),
            ("", "EOF"),
            (r#"{"items":[]}"#, "missing field `metadata`"),
            (
                r#"{"metadata":{},"items":[]}"#,
                "missing field `resourceVersion`",
            ),
            (
                r#"{"metadata":{"resourceVersion":"5"},"items":[{}]]}"#,
                "list",
            ),
            ("]", "a bracket too many"),
            (
                r#"{"metadata":{"resourceVersion":"5"},"items":[{}"#,
                "closed the list early",
            ),
            (
                r#"{"metadata":{"resourceVersion":"5"},"items":[{}]"#,
                "closed the list early",
            ),
        ] {
            let error = read(text.as_bytes(), 4).expect_err(text);
            assert!(error.status.message.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn rejects_endless_item() {
        let mut items = Items::default();
        items.feed(br#"{"items":["#, |_| {}).expect("a beginning");
        let chunk = vec![b'"'; 1]
            .into_iter()
            .chain(vec![b'x'; MAX_ITEM])
            .collect::<Vec<u8>>();
        let error = items.feed(&chunk, |_| {}).expect_err("too long");
        assert!(error.status.message.contains("bytes"), "{error}");
    }
}
