//! Estimates the cost of a JSONPath from its text, before parsing. The parser recurses into nested
//! constructs, and wildcards, unions and nested filters multiply the cost of evaluation.

/// Counts of costly constructs in an expression's text. Quoted names are skipped.
#[derive(Default)]
pub(super) struct Bounds {
    /// The number of `..`; each visits all descendants.
    descents: usize,
    /// The number of `..`, `*`, `?` and `:`; each selects many values from one.
    wide: usize,
    /// The number of `,` between selectors; each may select the same value again.
    unions: usize,
    /// The number of characters in `&&` and `||`, two per operator.
    joins: usize,
    /// The nesting depth of filters (`?`).
    filter_depth: usize,
    parentheses: usize,
    /// The number of `$`: the first one, and those within filters.
    pub(super) roots: usize,
    never: Option<&'static str>,
}

impl Bounds {
    /// Counts the constructs of any text, valid or not: the parser runs only afterwards.
    pub(super) fn of(text: &str) -> Self {
        let mut bounds = Self::default();
        let mut quote = None;
        let mut escaped = false;
        let mut before = ' ';

        // For each open bracket, whether it belongs to a filter; then the number of open
        // parentheses.
        let mut brackets = Vec::<bool>::new();
        let mut open = 0_usize;

        for (at, letter) in text.char_indices() {
            if let Some(end) = quote {
                match letter {
                    _ if escaped => escaped = false,
                    '\\' => escaped = true,
                    _ if letter == end => quote = None,
                    _ => {}
                }
                before = letter;
                continue;
            }

            let filters = brackets.iter().filter(|filter| **filter).count();
            match letter {
                '\'' | '"' => quote = Some(letter),
                '[' => brackets.push(false),
                ']' => drop(brackets.pop()),
                '?' => {
                    if let Some(filter) = brackets.last_mut() {
                        *filter = true;
                    }
                    bounds.wide += 1;
                    let depth = brackets.iter().filter(|filter| **filter).count();
                    bounds.filter_depth = bounds.filter_depth.max(depth);
                }
                '(' if before.is_ascii_alphanumeric() || before == '_' => {
                    bounds.never = Some("a function");
                }
                '(' => {
                    open += 1;
                    bounds.parentheses = bounds.parentheses.max(open);
                }
                ')' => open = open.saturating_sub(1),
                '.' if before == '.' => {
                    bounds.descents += 1;
                    bounds.wide += 1;
                    if filters > 0 {
                        bounds.never = Some("`..` in a filter");
                    }
                }
                '*' | ':' => bounds.wide += 1,
                ',' => bounds.unions += 1,
                '&' | '|' => bounds.joins += 1,
                '$' => {
                    bounds.roots += 1;
                    if at > 0 && !leads_to_one(&text[at + 1..]) {
                        bounds.never = Some("`$` in a filter that may select several values");
                    }
                }
                _ => {}
            }

            before = letter;
        }

        bounds
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(never) = self.never {
            return Err(format!("{never} is not allowed"));
        }

        for (count, most, construct) in [
            (self.descents, 1, "`..`"),
            (self.wide, 4, "`..`, `*`, `?` and `:`"),
            (self.unions, 3, "`,`"),
            (self.joins.div_ceil(2), 8, "`&&` and `||`"),
            (self.filter_depth, 2, "filters within each other"),
            (self.parentheses, 8, "parentheses within each other"),
            (self.roots, 2, "`$`"),
        ] {
            if count > most {
                return Err(format!("{count} {construct}, over the limit of {most}"));
            }
        }

        Ok(())
    }
}

/// Whether the path after a `$` within a filter consists of names and indexes only.
fn leads_to_one(path: &str) -> bool {
    let mut rest = path;
    loop {
        let after = match next_name(rest) {
            Some((_, after)) => after,
            None => match rest
                .strip_prefix('[')
                .and_then(|index| index.split_once(']'))
            {
                Some((index, after)) if index.trim().parse::<i64>().is_ok() => after,
                _ => return !rest.trim_start().starts_with(['.', '[']),
            },
        };
        rest = after;
    }
}

/// The names at the start of a path, and the text after them.
pub(super) fn leading_names(text: &str) -> (Vec<String>, &str) {
    let mut rest = text.strip_prefix('$').unwrap_or(text);
    let mut names = Vec::new();
    while let Some((name, after)) = next_name(rest) {
        names.push(name.to_owned());
        rest = after;
    }
    (names, rest)
}

/// The name in `.name`, or in `['name']` without escapes, and the text after it.
fn next_name(path: &str) -> Option<(&str, &str)> {
    if let Some(path) = path.strip_prefix('.') {
        let end = path.find(|letter: char| {
            letter.is_ascii() && !letter.is_ascii_alphanumeric() && letter != '_'
        });
        let (name, rest) = path.split_at(end.unwrap_or(path.len()));
        let starts = name.starts_with(|letter: char| !letter.is_ascii_digit());
        return starts.then_some((name, rest));
    }

    let path = path.strip_prefix('[')?;
    let quote = path
        .chars()
        .next()
        .filter(|quote| ['\'', '"'].contains(quote))?;
    let (name, rest) = path[1..].split_once(quote)?;
    let rest = rest.strip_prefix(']')?;

    (!name.contains('\\')).then_some((name, rest))
}
