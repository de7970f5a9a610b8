//! docs/reference/commands.md: the help of each command, from clap.

use std::fmt::Write;

use clap::{Command, CommandFactory};

use super::check;
use crate::args::Cli;

/// The width of the help, in characters.
const WIDTH: usize = 110;

const INTRODUCTION: &str = "\
What `operetta COMMAND --help` prints. [Commands](../commands.md) describes how they are used. Exit codes: 0 success, 1 failure, 2 \
wrong usage; `rbac --diff` has those of `kubectl diff`.";

#[test]
fn commands_page_in_the_repository_matches_clap() {
    let mut body = String::new();

    let mut cli = Cli::command();
    cli.build();
    write(&cli, &mut body);

    check(
        "commands.md",
        "Flags of the commands",
        INTRODUCTION,
        body.trim_start_matches('\n'),
    );
}

/// Adds the help of a command's subcommands.
fn write(command: &Command, body: &mut String) {
    for subcommand in command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set())
    {
        if subcommand.get_name() == "help" {
            continue;
        }

        // Values of environment variables are those of this machine.
        let mut shown = subcommand
            .clone()
            .term_width(WIDTH)
            .mut_args(|argument| argument.hide_env_values(true));

        let help = shown.render_long_help().to_string();
        let help = help
            .lines()
            .map(|line| format!("{}\n", line.trim_end()))
            .collect::<String>();

        let name = subcommand.get_bin_name().unwrap_or(subcommand.get_name());
        writeln!(body, "\n## {name}\n\n```text\n{}\n```", help.trim_end()).expect("a string");

        write(subcommand, body);
    }
}
