//! `operetta generate`: generates the CRD from the types of a project, or RBAC from the manifest of
//! a component.

mod crd;
mod rbac;
mod schema;
mod source;

use anyhow::Result;

use crate::args::{GenerateArgs, GenerateWhat};

/// Writes the CRD, or prints RBAC.
///
/// # Errors
/// Returns the error of the subcommand.
pub async fn generate(args: GenerateArgs) -> Result<()> {
    match args.what {
        Some(GenerateWhat::Rbac(args)) => rbac::rbac(&args).await,
        None => crd::crd(&args.dir),
    }
}
