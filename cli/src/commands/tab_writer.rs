//! Aligns columns as kubectl does (cli-runtime's `GetNewTabWriter`): at least six characters wide,
//! three blanks between, and never narrower than before, so that later lines align with earlier
//! ones.

use std::fmt::Write;

use operetta_host::terminal;

const MIN_WIDTH: usize = 6;
const PADDING: usize = 3;

/// The column widths of the lines printed so far.
#[derive(Debug, Default)]
pub struct TabWriter {
    /// The widths by column; the last column of a line has none.
    widths: Vec<usize>,
}

impl TabWriter {
    /// Formats lines of cells. Control characters are escaped or cut off, as kubectl does.
    pub fn lines(&mut self, lines: &[Vec<String>]) -> String {
        let lines: Vec<Vec<String>> = lines
            .iter()
            .map(|cells| cells.iter().map(|cell| shown(cell)).collect())
            .collect();

        for cells in &lines {
            for (at, cell) in cells.iter().enumerate().take(cells.len().saturating_sub(1)) {
                if self.widths.len() == at {
                    self.widths.push(MIN_WIDTH);
                }
                self.widths[at] = self.widths[at].max(cell.chars().count() + PADDING);
            }
        }

        let mut text = String::new();
        for cells in &lines {
            for (at, cell) in cells.iter().enumerate() {
                let width = if at + 1 == cells.len() {
                    0
                } else {
                    self.widths[at]
                };
                let _infallible = write!(text, "{cell:width$}");
            }
            text.push('\n');
        }

        text
    }
}

/// Cuts a cell at its first line break, and escapes what a terminal would obey; an escape character
/// as kubectl does.
fn shown(cell: &str) -> String {
    let line = cell.split(['\u{c}', '\n', '\r']).next().unwrap_or_default();
    let mut text: String = line
        .chars()
        .map(|c| if c == '\t' || c == '\u{b}' { ' ' } else { c })
        .collect();

    text = terminal::line(&text.replace('\u{1b}', "^["));
    if line.len() < cell.len() {
        text.push_str("...");
    }

    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(line: &[&str]) -> Vec<String> {
        line.iter().map(|&cell| cell.to_owned()).collect()
    }

    #[test]
    fn columns_grow_and_last_is_not_padded() {
        let mut writer = TabWriter::default();
        let text = writer.lines(&[
            cells(&["NAME", "READY", "AGE"]),
            cells(&["a-long-name", "1/1", "5s"]),
        ]);

        assert_eq!(
            text,
            "NAME          READY   AGE\na-long-name   1/1     5s\n"
        );
        assert_eq!(
            writer.lines(&[cells(&["b", "", "6s"])]),
            "b                     6s\n"
        );

        assert_eq!(
            writer.lines(&[cells(&["é", "100/100", "6s"])]),
            "é             100/100   6s\n"
        );
    }

    #[test]
    fn a_cell_cannot_end_the_line_or_command_the_terminal() {
        let mut writer = TabWriter::default();
        assert_eq!(
            writer.lines(&[cells(&["a\nb", "c\td", "\u{1b}[31m", "\u{202e}e"])]),
            "a...   c d   ^[[31m   \\u{202e}e\n"
        );
    }
}
