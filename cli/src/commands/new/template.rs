//! Templates: text files with `{{placeholders}}`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

use super::{files, folder, language::Of};
use crate::commands::names::plural;

/// The files that every language gets.
const COMMON: &str = "common";

/// The values of the placeholders.
pub struct Values(BTreeMap<&'static str, String>);

impl Values {
    /// Creates the values from names that have been checked.
    pub fn new(name: &str, group: &str, version: &str, kind: &str, language: &Of) -> Self {
        let list = |lines: &[&str]| {
            lines
                .iter()
                .map(|line| format!("$ {line}"))
                .collect::<Vec<_>>()
                .join("\n")
        };

        let mut values = Self(BTreeMap::from([
            ("name", name.to_owned()),
            // As identifiers are written.
            ("ident", name.replace('-', "_")),
            ("group", group.to_owned()),
            ("version", version.to_owned()),
            ("kind", kind.to_owned()),
            ("singular", kind.to_lowercase()),
            ("plural", plural(kind)),
            ("language", language.name.to_owned()),
            ("needs", language.needs.to_owned()),
            ("code", language.code.to_owned()),
            ("generate", language.generate.to_owned()),
            ("published", language.published.to_owned()),
            ("ignored", language.ignored.join("\n")),
        ]));

        // These texts may contain placeholders themselves.
        let commands = list(&[language.setup, language.test].concat());
        for (placeholder, text) in [
            ("prepare_and_test", commands),
            ("published", values.0["published"].clone()),
        ] {
            let text = values.render(&text).unwrap_or(text);
            values.0.insert(placeholder, text);
        }

        values
    }

    /// The text of a placeholder; empty if there is none.
    pub fn get(&self, placeholder: &str) -> &str {
        self.0.get(placeholder).map_or("", String::as_str)
    }

    /// Fills in a text.
    ///
    /// # Errors
    /// Returns an error if a placeholder is unknown or does not end.
    pub fn render(&self, text: &str) -> Result<String> {
        let mut rendered = String::with_capacity(text.len());
        let mut rest = text;

        while let Some((before, after)) = rest.split_once("{{") {
            let (placeholder, after) = after
                .split_once("}}")
                .context("a placeholder does not end")?;

            let Some(value) = self.0.get(placeholder) else {
                bail!("unknown placeholder {{{{{placeholder}}}}}")
            };

            rendered.push_str(before);
            rendered.push_str(value);
            rest = after;
        }

        rendered.push_str(rest);
        Ok(rendered)
    }
}

/// Renders the files of a project, by their paths. A name that begins with `_` in the template
/// begins with `.` in the project.
///
/// # Errors
/// Returns an error that names the template that cannot be rendered.
pub fn project(language: &str, values: &Values) -> Result<BTreeMap<String, String>> {
    let mut rendered = BTreeMap::new();
    for name in [COMMON, language] {
        let files = folder(files::TEMPLATES, name)
            .with_context(|| format!("there is no template {name:?}"))?;

        for (path, bytes) in files {
            let failed = || format!("failed to render the template {name}/{path}");
            let text = std::str::from_utf8(bytes).with_context(failed)?;
            let path = values.render(path).with_context(failed)?;

            let path = path.split('/').map(|part| {
                match part.strip_prefix('_').filter(|rest| !rest.starts_with('_')) {
                    Some(hidden) => format!(".{hidden}"),
                    None => part.to_owned(),
                }
            });

            rendered.insert(
                path.collect::<Vec<_>>().join("/"),
                values.render(text).with_context(failed)?,
            );
        }
    }

    Ok(rendered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{args::Language, commands::new::language};

    #[test]
    fn fills_placeholders_and_names_unknown_ones() {
        let values = Values::new(
            "a-b",
            "example.com",
            "v1",
            "CronTab",
            &language::of(Language::Rust),
        );

        let text = "{{name}} {{ident}} {{plural}}.{{group}} {x}";
        assert_eq!(
            values.render(text).expect("renders"),
            "a-b a_b crontabs.example.com {x}"
        );

        assert_eq!(
            values.render("{{what}}").expect_err("unknown").to_string(),
            "unknown placeholder {{what}}"
        );
        values.render("{{name").expect_err("open");
    }
}
