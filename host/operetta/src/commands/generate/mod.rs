//! `operetta generate`: what follows from the code. The CRD from the types of a project, the rights from what a
//! component declares.

mod crd;
mod rbac;
mod schema;
mod source;

use anyhow::Result;

use crate::args::{GenerateArgs, GenerateWhat};

/// Writes the CRD, or prints the rights.
pub async fn generate(args: GenerateArgs) -> Result<()> {
    match args.what {
        Some(GenerateWhat::Rbac(args)) => rbac::rbac(&args).await,
        None => crd::crd(&args.dir),
    }
}
