//! The parameters of a query, and the options that they stand for.

use serde_json::{Map, Value, json};

use crate::{
    apimachinery::{
        field::{FieldError, Path},
        options::{FieldValidation, validate_field_manager},
        status::Status,
    },
    golang::quote,
};

/// The parameters of a query, in their order.
#[derive(Clone, Debug, Default)]
pub struct Query(pub Vec<(String, String)>);

impl Query {
    /// Parses the query of a URL. As in Go, a parameter with a semicolon or an incomplete escape is
    /// left out.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let parameters = text
            .split('&')
            .filter(|parameter| is_well_formed(parameter));
        Self(
            parameters
                .flat_map(|parameter| form_urlencoded::parse(parameter.as_bytes()).into_owned())
                .collect(),
        )
    }

    /// Returns the first value of a parameter; `None` when it is missing.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns the first value of a parameter, or `""`.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// Returns all values of a parameter.
    #[must_use]
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.0
            .iter()
            .filter(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
            .collect()
    }

    /// Returns a number; `None` when the parameter is missing or empty.
    ///
    /// # Errors
    ///
    /// 400, with the message of Go's `strconv.ParseInt`.
    pub fn integer(&self, name: &str) -> Result<Option<i64>, Status> {
        let text = self.text(name);
        if text.is_empty() {
            return Ok(None);
        }

        let parsed = text.parse().map(Some);
        parsed.map_err(|_| {
            Status::bad_request(format!(
                "strconv.ParseInt: parsing {}: invalid syntax",
                quote(text)
            ))
        })
    }

    /// Returns a truth value, as the API server reads it: present is true, unless it is `false` or
    /// `0`.
    #[must_use]
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.get(name)
            .map(|text| !matches!(text.to_ascii_lowercase().as_str(), "false" | "0"))
    }
}

/// Reports whether a parameter of a query has no semicolon, and two hexadecimal digits after each
/// percent sign.
fn is_well_formed(parameter: &str) -> bool {
    let is_escape =
        |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    !parameter.contains(';') && parameter.split('%').skip(1).all(is_escape)
}

/// The options of a write.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// Reports whether nothing is stored.
    pub dry_run: bool,
    /// The manager of the fields, or `""`.
    pub field_manager: String,
    /// The treatment of unknown fields.
    pub field_validation: FieldValidation,
    /// Reports whether an apply takes fields from others; `None` when it is not said.
    pub force: Option<bool>,
}

impl WriteOptions {
    /// Reads the options of a create, update or patch. `kind` is such as `CreateOptions`;
    /// `is_apply` is of patches.
    ///
    /// # Errors
    ///
    /// 422 for values that the API server rejects.
    pub fn read(query: &Query, kind: &str, is_apply: bool) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let is_patch = kind == "PatchOptions";
        let force = query.flag("force").filter(|_| is_patch);
        let field_manager = query.text("fieldManager").to_owned();

        if is_patch && !is_apply && force.is_some() {
            errors.push(FieldError::forbidden(
                "force",
                "may not be specified for non-apply patch",
            ));
        }

        if is_patch && is_apply && field_manager.is_empty() {
            errors.push(FieldError::required(
                "fieldManager",
                "is required for apply patch",
            ));
        }

        errors.extend(validate_field_manager(
            &field_manager,
            &Path::new("fieldManager"),
        ));

        let dry_run = check_dry_run(query, &mut errors);
        let field_validation = check_field_validation(query.text("fieldValidation"), &mut errors);
        if errors.is_empty() {
            Ok(Self {
                dry_run,
                field_manager,
                field_validation,
                force,
            })
        } else {
            Err(Status::invalid("meta.k8s.io", kind, "", &errors))
        }
    }

    /// Returns the options as the object that admission sees.
    #[must_use]
    pub fn to_value(&self, kind: &str) -> Value {
        let mut options = Map::new();
        options.insert("kind".into(), kind.into());
        options.insert("apiVersion".into(), "meta.k8s.io/v1".into());

        if self.dry_run {
            options.insert("dryRun".into(), json!(["All"]));
        }
        if !self.field_manager.is_empty() {
            options.insert("fieldManager".into(), self.field_manager.as_str().into());
        }

        let validation = match self.field_validation {
            FieldValidation::Ignore => "Ignore",
            FieldValidation::Warn => "Warn",
            FieldValidation::Strict => "Strict",
        };

        options.insert("fieldValidation".into(), validation.into());
        if let Some(force) = self.force {
            options.insert("force".into(), force.into());
        }

        Value::Object(options)
    }
}

/// Checks `dryRun` and reports whether nothing shall be stored.
pub fn check_dry_run(query: &Query, errors: &mut Vec<FieldError>) -> bool {
    check_dry_run_values(&query.all("dryRun"), errors)
}

/// Checks the values of `dryRun` and reports whether nothing shall be stored.
pub fn check_dry_run_values(values: &[&str], errors: &mut Vec<FieldError>) -> bool {
    if values.iter().any(|value| *value != "All") {
        errors.push(FieldError::not_supported("dryRun", json!(values), &["All"]));
    }
    !values.is_empty()
}

fn check_field_validation(text: &str, errors: &mut Vec<FieldError>) -> FieldValidation {
    match text {
        "" | "Warn" => FieldValidation::Warn,
        "Ignore" => FieldValidation::Ignore,
        "Strict" => FieldValidation::Strict,
        other => {
            errors.push(FieldError::not_supported(
                "fieldValidation",
                other,
                &["", "Ignore", "Strict", "Warn"],
            ));
            FieldValidation::Warn
        }
    }
}

/// The options of a list or watch.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// The revision, or `""`.
    pub resource_version: String,
    /// `Exact`, `NotOlderThan` or `""`.
    pub resource_version_match: String,
    /// The number of objects of a page; 0 is no limit.
    pub limit: usize,
    /// The token of the next page, or `""`.
    pub continue_token: String,
    /// The seconds until a watch ends.
    pub timeout_seconds: Option<u64>,
    /// Reports whether a watch sends bookmarks.
    pub allow_bookmarks: bool,
    /// Reports whether a watch begins with the objects that exist.
    pub send_initial_events: Option<bool>,
}

impl ListOptions {
    /// Reads the options.
    ///
    /// # Errors
    ///
    /// 400 for numbers that are none, 422 for combinations that the API server forbids.
    pub fn read(query: &Query, is_watch: bool) -> Result<Self, Status> {
        let timeout = query.integer("timeoutSeconds")?;
        let limit = query.integer("limit")?.unwrap_or_default();
        let options = Self {
            resource_version: query.text("resourceVersion").into(),
            resource_version_match: query.text("resourceVersionMatch").into(),
            limit: usize::try_from(limit).unwrap_or_default(),
            continue_token: query.text("continue").into(),
            timeout_seconds: timeout
                .and_then(|seconds| u64::try_from(seconds).ok())
                .filter(|seconds| *seconds > 0),
            allow_bookmarks: query.flag("allowWatchBookmarks").unwrap_or_default(),
            send_initial_events: query.flag("sendInitialEvents"),
        };

        let errors = if is_watch {
            options.watch_errors()
        } else {
            options.list_errors()
        };
        if errors.is_empty() {
            Ok(options)
        } else {
            Err(Status::invalid("meta.k8s.io", "ListOptions", "", &errors))
        }
    }

    fn list_errors(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if !self.resource_version_match.is_empty() {
            let mut forbid =
                |detail: &str| errors.push(FieldError::forbidden("resourceVersionMatch", detail));
            if self.resource_version.is_empty() {
                forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            if !self.continue_token.is_empty() {
                forbid("resourceVersionMatch is forbidden when continue is provided");
            }
            if self.resource_version_match == "Exact" && self.resource_version == "0" {
                forbid("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
            }

            if !matches!(
                self.resource_version_match.as_str(),
                "Exact" | "NotOlderThan"
            ) {
                let supported = ["Exact", "NotOlderThan", ""];
                let value = self.resource_version_match.as_str();
                errors.push(FieldError::not_supported(
                    "resourceVersionMatch",
                    value,
                    &supported,
                ));
            }
        }

        if self.send_initial_events.is_some() {
            errors.push(FieldError::forbidden(
                "sendInitialEvents",
                "sendInitialEvents is forbidden for list",
            ));
        }

        errors
    }

    fn watch_errors(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let field = "resourceVersionMatch";
        let value = self.resource_version_match.as_str();

        if self.send_initial_events.is_none() {
            if !value.is_empty() {
                let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(FieldError::forbidden(field, detail));
            }
        } else if value != "NotOlderThan" {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(FieldError::forbidden(field, detail));
            if !value.is_empty() {
                errors.push(FieldError::not_supported(field, value, &["NotOlderThan"]));
            }
        }

        if !self.continue_token.is_empty() {
            errors.push(FieldError::forbidden(
                field,
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }

        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_parameters_are_left_out() {
        for text in [
            "dryRun=All;",
            "dryRun=All;pretty=1",
            "dryRun=All%",
            "dryRun=All%4",
            "dryRun=All%zz",
            "dry%Run=All",
        ] {
            let query = Query::parse(&format!("{text}&force=true"));
            assert_eq!(query.0, [("force".to_owned(), "true".to_owned())], "{text}");
        }
        let query = Query::parse("a=b+c%20d&&e");
        assert_eq!(
            query.0,
            [
                ("a".to_owned(), "b c d".to_owned()),
                ("e".to_owned(), String::new())
            ]
        );
    }
}
