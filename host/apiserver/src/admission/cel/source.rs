//! Positions in the text of an expression, for messages.
//!
//! The parser keeps no positions, so a name is looked for in the text. If it occurs several times, the first is shown.

/// Returns an issue at a line and column, both from 1, as the reference implementation shows it.
pub(super) fn issue_at(source: &str, line: isize, column: isize, message: &str) -> String {
    let text = usize::try_from(line - 1).ok().and_then(|line| source.lines().nth(line)).unwrap_or_default();
    let dots = ".".repeat(usize::try_from(column - 1).unwrap_or_default());
    format!("ERROR: <input>:{line}:{column}: {message}\n | {text}\n | {dots}^")
}

/// The role of a name in an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// A variable: shown at its first letter.
    Variable,
    /// A field: shown at the dot before it.
    Field,
    /// A function: shown at the bracket after it.
    Function,
    /// The type of a message: shown at the bracket after it.
    Message,
    /// An operator.
    Operator,
    /// A literal, in the words of the source.
    Text,
}

/// A position in the text: the line and column, both from 1.
pub(super) type Position = (isize, isize);

/// Returns the position of the `nth` occurrence of a name, from 0; of the first if there are less.
pub(super) fn position(source: &str, name: &str, place: Place, nth: usize) -> Position {
    let all = occurrences(source, name, place);
    let offset = all.get(nth).or(all.first()).copied().unwrap_or_default();
    let before = &source[..offset];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line as isize, column as isize)
}

fn occurrences(source: &str, name: &str, place: Place) -> Vec<usize> {
    if matches!(place, Place::Text) {
        return source.match_indices(name).map(|(start, _)| start).collect();
    }
    let outside = blank_strings(source);
    let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let offset = |start: usize| {
        let before = outside[..start].trim_end();
        let after = &outside[start + name.len()..];
        let sign = after.trim_start().chars().next().unwrap_or(' ');
        let end = start + name.len() + after.len() - after.trim_start().len();
        if place == Place::Operator {
            return Some(start);
        }
        if outside[..start].ends_with(is_name) || after.starts_with(is_name) {
            return None;
        }
        match place {
            Place::Variable => (!before.ends_with('.') && sign != '(' && sign != '{').then_some(start),
            Place::Field => before.ends_with('.').then(|| before.len() - 1),
            Place::Function => (sign == '(').then_some(end),
            Place::Message => (sign == '{').then_some(end),
            Place::Operator | Place::Text => Some(start),
        }
    };
    outside.match_indices(name).filter_map(|(start, _)| offset(start)).collect()
}

/// Replaces the text of string literals by spaces.
fn blank_strings(source: &str) -> String {
    let mut blanked = String::with_capacity(source.len());
    let mut quote = None;
    let mut escaped = false;
    for char in source.chars() {
        let is_text = quote.is_some() && (escaped || Some(char) != quote);
        match quote {
            Some(open) if char == open && !escaped => quote = None,
            None if char == '"' || char == '\'' => quote = Some(char),
            _ => {}
        }
        escaped = quote.is_some() && char == '\\' && !escaped;
        if is_text {
            blanked.extend(std::iter::repeat_n(' ', char.len_utf8()));
        } else {
            blanked.push(char);
        }
    }
    blanked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_is_that_of_the_nth_name_outside_of_strings() {
        assert_eq!(position("'foo' == foo", "foo", Place::Variable, 0), (1, 10));
        assert_eq!(position("foo == foo", "foo", Place::Variable, 1), (1, 8));
        assert_eq!(position("a.b\n.c(1)", "c", Place::Function, 0), (2, 3));
        assert_eq!(position("a.b", "b", Place::Field, 0), (1, 2));
        assert_eq!(position("Foo{a: 1}", "Foo", Place::Message, 0), (1, 4));
    }

    #[test]
    fn issue_shows_the_place() {
        assert_eq!(issue_at("a\nbc", 2, 2, "x"), "ERROR: <input>:2:2: x\n | bc\n | .^");
    }
}
