//! The arguments of the commands about the program itself.

use clap::Args;

#[derive(Args, Debug)]
pub struct ExplainArgs {
    /// The code, in upper or lower case [default: list all codes]
    #[arg(value_name = "CODE")]
    pub code: Option<String>,
}

#[derive(Args, Debug)]
pub struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}
