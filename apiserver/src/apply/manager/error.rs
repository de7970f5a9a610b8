//! Errors of applies, as statuses of the API server.

use std::borrow::Cow;

use crate::{
    apimachinery::status::{Cause, Details, Status},
    apply::{
        merge::{Conflict, ManagerId, Operation, UpdateError},
        value::quote,
    },
};

impl From<UpdateError> for Status {
    fn from(error: UpdateError) -> Self {
        match error {
            UpdateError::Conflicts(conflicts) => conflict(&conflicts),
            UpdateError::Failed(message) => Self::plain(message),
        }
    }
}

/// Returns the error of conflicts, grouped by manager.
fn conflict(conflicts: &[Conflict]) -> Status {
    let causes = conflicts.iter().map(|conflict| Cause {
        reason: "FieldManagerConflict".to_owned(),
        message: format!("conflict with {}", describe(&conflict.manager)),
        field: conflict.path.to_string(),
    });

    let message = match conflicts {
        [only] => format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            describe(&only.manager),
            only.path
        ),
        several => format!(
            "Apply failed with {} conflicts: {}",
            several.len(),
            by_manager(several).join("\n")
        ),
    };
    Status {
        code: 409,
        reason: Cow::Borrowed("Conflict"),
        message,
        details: Some(Box::new(Details {
            causes: causes.collect(),
            ..Details::default()
        })),
        continue_token: String::new(),
    }
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
        text.push_str(&format!(
            " with subresource {}",
            quote(&manager.subresource)
        ));
    }

    if manager.operation == Operation::Update {
        text.push_str(&format!(" using {}", manager.api_version));
    }

    text
}
