//! The code a ServiceAccount allows to act as it: any code of the Plugin it names, or only code
//! with certain digests.

use std::collections::BTreeSet;

const PREFIX: &str = "sha256:";

/// The code allowed to act as a ServiceAccount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedCode {
    /// The annotation's value.
    annotation: String,
    /// The digests listed for the plugin. Empty allows any code of the Plugin, so whoever may
    /// change its source decides.
    digests: BTreeSet<String>,
}

impl AllowedCode {
    /// Parses the entries of an annotation about this plugin: `NAME` and `*` allow any code,
    /// `NAME@sha256:HASH` allows one digest. Entries with digests take precedence. Returns None if
    /// there is no entry for the plugin.
    ///
    /// # Errors
    /// The entry with an invalid digest.
    pub fn parse(annotation: &str, plugin: &str) -> Result<Option<Self>, String> {
        let mut is_named = false;
        let mut digests = BTreeSet::new();

        for entry in entries(annotation) {
            match entry.split_once('@') {
                None => is_named |= entry == "*" || entry == plugin,
                Some((name, digest)) if name == plugin => {
                    if !is_digest(digest) {
                        return Err(entry.chars().take(128).collect());
                    }
                    digests.insert(digest.to_owned());
                }
                Some(_) => {}
            }
        }

        let is_named = is_named || !digests.is_empty();
        Ok(is_named.then(|| Self {
            annotation: annotation.to_owned(),
            digests,
        }))
    }

    /// Reports whether code with any digest may act.
    pub fn is_any(&self) -> bool {
        self.digests.is_empty()
    }

    /// Reports whether code with this digest may act.
    pub fn permits(&self, digest: &str) -> bool {
        self.is_any() || self.digests.contains(digest)
    }

    /// Returns the annotation with this digest added and the plugin's bare name removed.
    pub fn with(&self, plugin: &str, digest: &str) -> String {
        let pin = format!("{plugin}@{digest}");
        let kept = entries(&self.annotation).filter(|entry| *entry != plugin);
        kept.chain([pin.as_str()]).collect::<Vec<_>>().join(",")
    }

    /// Returns a text that changes when the digests do.
    pub fn version(&self) -> String {
        self.digests
            .iter()
            .map(|digest| format!(" {digest}"))
            .collect()
    }
}

fn entries(annotation: &str) -> impl Iterator<Item = &str> {
    annotation
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
}

/// Reports whether a text is `sha256:` and 64 lowercase hexadecimal digits.
fn is_digest(text: &str) -> bool {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.strip_prefix(PREFIX)
        .is_some_and(|hash| hash.len() == 64 && hash.bytes().all(is_hex))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_take_precedence_over_names() {
        let one = format!("sha256:{}", "1".repeat(64));
        let two = format!("sha256:{}", "2".repeat(64));
        let parse = |text: &str| AllowedCode::parse(text, "p");

        for text in ["p", "*", " a, p ", &format!("a@{one},p")] {
            assert!(
                parse(text).expect("read").expect("named").is_any(),
                "{text}"
            );
        }
        for text in ["", "a", "pp", &format!("pp@{one}"), &format!("*@{one}")] {
            assert_eq!(parse(text), Ok(None), "{text}");
        }

        for text in [
            format!("p@{one}"),
            format!("p, p@{one}"),
            format!("*,p@{one}"),
        ] {
            let allowed = parse(&text).expect("read").expect("named");
            assert!(allowed.permits(&one) && !allowed.permits(&two), "{text}");
        }

        let both = parse(&format!("p@{one},p@{two}"))
            .expect("read")
            .expect("named");
        assert!(both.permits(&one) && both.permits(&two));

        let more = AllowedCode::parse("a, p,p@sha256:", "a")
            .expect("read")
            .expect("named");
        assert_eq!(more.with("p", &one), format!("a,p@sha256:,p@{one}"));

        for digest in ["", "sha256:", "sha256:12", &one.to_uppercase(), &one[7..]] {
            let entry = format!("p@{digest}");
            assert_eq!(
                parse(&format!("p,{entry}")),
                Err(entry.clone()),
                "a pin that is none allows nothing"
            );
            assert_eq!(
                AllowedCode::parse(&entry, "other"),
                Ok(None),
                "it is not about others"
            );
        }
    }
}
