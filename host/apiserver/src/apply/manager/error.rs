//! Errors of applies, as statuses of the API server.

use serde_json::{Value, json};

use crate::apply::{
    merge::{Conflict, ManagerId, Operation, UpdateError},
    value::quote,
};

/// A conflict as a cause of a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The manager in words.
    pub message: String,
    /// The path of the field.
    pub field: String,
}

/// An error of an apply or an update.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Other managers manage the fields: 409, reason `Conflict`.
    #[error("{message}")]
    Conflict {
        /// The message of the status.
        message: String,
        /// A cause `FieldManagerConflict` for each field.
        causes: Vec<Cause>,
    },
    /// The configuration cannot be applied here: 400, reason `BadRequest`.
    #[error("{0}")]
    BadRequest(String),
    /// The objects are not of their types, or cannot be merged: 500 without a reason.
    #[error("{0}")]
    Failed(String),
}

impl ApplyError {
    /// Returns the HTTP status code.
    pub fn code(&self) -> u16 {
        match self {
            Self::Conflict { .. } => 409,
            Self::BadRequest(_) => 400,
            Self::Failed(_) => 500,
        }
    }

    /// Returns the reason of the status. It is empty for errors that the API server does not know.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Conflict { .. } => "Conflict",
            Self::BadRequest(_) => "BadRequest",
            Self::Failed(_) => "",
        }
    }

    /// Returns the error as a Kubernetes `Status`.
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.to_string(), "code": self.code(),
        });
        if !self.reason().is_empty() {
            status["reason"] = json!(self.reason());
        }
        if let Self::Conflict { causes, .. } = self {
            let causes = causes
                .iter()
                .map(|cause| json!({"reason": "FieldManagerConflict", "message": cause.message, "field": cause.field}));
            status["details"] = json!({ "causes": causes.collect::<Vec<_>>() });
        }
        status
    }
}

impl From<UpdateError> for ApplyError {
    fn from(error: UpdateError) -> Self {
        match error {
            UpdateError::Conflicts(conflicts) => conflict(&conflicts),
            UpdateError::Failed(message) => Self::Failed(message),
        }
    }
}

/// Returns the error of conflicts, grouped by manager.
fn conflict(conflicts: &[Conflict]) -> ApplyError {
    let causes = conflicts.iter().map(|conflict| Cause {
        message: format!("conflict with {}", describe(&conflict.manager)),
        field: conflict.path.to_string(),
    });
    let message = match conflicts {
        [only] => format!("Apply failed with 1 conflict: conflict with {}: {}", describe(&only.manager), only.path),
        several => format!("Apply failed with {} conflicts: {}", several.len(), by_manager(several).join("\n")),
    };
    ApplyError::Conflict { message, causes: causes.collect() }
}

fn by_manager(conflicts: &[Conflict]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut previous = None;
    for conflict in conflicts {
        if previous != Some(&conflict.manager) {
            lines.push(format!("conflicts with {}:", describe(&conflict.manager)));
            previous = Some(&conflict.manager);
        }
        lines.push(format!("- {}", conflict.path));
    }
    lines
}

fn describe(manager: &ManagerId) -> String {
    let mut text = quote(&manager.name);
    if !manager.subresource.is_empty() {
        text.push_str(&format!(" with subresource {}", quote(&manager.subresource)));
    }
    if manager.operation == Operation::Update {
        text.push_str(&format!(" using {}", manager.api_version));
    }
    text
}
