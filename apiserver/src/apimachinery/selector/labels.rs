//! Label selectors: `app=web,tier in (front,back),!debug`.

use std::collections::BTreeSet;

use super::lexer::{Lexer, Token};
use crate::{apimachinery::names, golang::quote};

/// An operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Greater,
    Less,
}

/// A requirement of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: BTreeSet<String>,
}

/// A label selector. The empty one selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

impl LabelSelector {
    /// Parses a selector.
    ///
    /// # Errors
    ///
    /// The message of the API server's parser.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser {
            lexer: Lexer::new(text),
            ahead: None,
        };
        parser.parse()
    }

    /// Reports whether everything is selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Reports whether an object with these labels is selected.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.matches(label(&requirement.key)))
    }
}

impl Requirement {
    fn new(key: String, operator: Operator, values: BTreeSet<String>) -> Result<Self, String> {
        let key_errors = names::qualified_name(&key);
        if !key_errors.is_empty() {
            return Err(format!(
                "<nil>: Invalid value: {}: {}",
                quote(&key),
                key_errors.join("; ")
            ));
        }
        let is_number = matches!(operator, Operator::Greater | Operator::Less);
        for (index, value) in values.iter().enumerate() {
            if is_number && value.parse::<i64>().is_err() {
                let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                return Err(format!(
                    "values[{index}]: Invalid value: {}: {detail}",
                    quote(value)
                ));
            }
            let errors = names::label_value(value);
            if !errors.is_empty() {
                return Err(format!(
                    "values[{index}][{key}]: Invalid value: {}: {}",
                    quote(value),
                    errors.join("; ")
                ));
            }
        }
        Ok(Self {
            key,
            operator,
            values,
        })
    }

    fn matches(&self, value: Option<&str>) -> bool {
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Greater => self
                .compare(value)
                .is_some_and(|(value, bound)| value > bound),
            Operator::Less => self
                .compare(value)
                .is_some_and(|(value, bound)| value < bound),
        }
    }

    fn compare(&self, value: Option<&str>) -> Option<(i64, i64)> {
        Some((value?.parse().ok()?, self.values.first()?.parse().ok()?))
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    ahead: Option<(Token, String)>,
}

impl Parser<'_> {
    fn peek(&mut self) -> (Token, String) {
        let next = match self.ahead.take() {
            Some(next) => next,
            None => self.lexer.next(),
        };
        self.ahead = Some(next.clone());
        next
    }

    fn take(&mut self) -> (Token, String) {
        self.ahead.take().unwrap_or_else(|| self.lexer.next())
    }

    /// Looks at the next token where a value is expected: there `in` and `notin` are names.
    fn peek_value(&mut self) -> (Token, String) {
        as_value(self.peek())
    }

    fn parse(&mut self) -> Result<LabelSelector, String> {
        let mut requirements = Vec::new();
        loop {
            let (token, text) = self.peek();
            match token {
                Token::Identifier | Token::Not | Token::In | Token::NotIn => {
                    let requirement = self.requirement();
                    requirements.push(
                        requirement
                            .map_err(|error| format!("unable to parse requirement: {error}"))?,
                    );
                    match self.take() {
                        (Token::End, _) => break,
                        (Token::Comma, _) => {
                            let (token, text) = self.peek_value();
                            if !matches!(token, Token::Identifier | Token::Not) {
                                return Err(format!(
                                    "found '{text}', expected: identifier after ','"
                                ));
                            }
                        }
                        (_, text) => {
                            return Err(format!(
                                "found '{text}', expected: ',' or 'end of string'"
                            ));
                        }
                    }
                }
                Token::End => break,
                _ => {
                    return Err(format!(
                        "found '{text}', expected: !, identifier, or 'end of string'"
                    ));
                }
            }
        }
        requirements.sort_by(|left: &Requirement, right| left.key.cmp(&right.key));
        Ok(LabelSelector { requirements })
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = self.peek().0 == Token::Not;
        if negated {
            self.take();
        }
        let (token, key) = as_value(self.take());
        if token != Token::Identifier {
            return Err(format!("found '{key}', expected: identifier"));
        }
        let is_end = matches!(self.peek().0, Token::End | Token::Comma);
        if negated || is_end {
            let operator = if negated {
                Operator::DoesNotExist
            } else {
                Operator::Exists
            };
            return Requirement::new(key, operator, BTreeSet::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            Token::In | Token::NotIn => self.values()?,
            _ => self.exact_value()?,
        };
        let operator = match operator {
            Token::NotIn | Token::NotEquals => Operator::NotIn,
            Token::Greater => Operator::Greater,
            Token::Less => Operator::Less,
            _ => Operator::In,
        };
        Requirement::new(key, operator, values)
    }

    fn operator(&mut self) -> Result<Token, String> {
        let (token, text) = self.take();
        match token {
            Token::In
            | Token::NotIn
            | Token::Equals
            | Token::DoubleEquals
            | Token::NotEquals
            | Token::Greater
            | Token::Less => Ok(token),
            _ => Err(format!(
                "found '{text}', expected: in, notin, =, ==, !=, gt, lt"
            )),
        }
    }

    fn exact_value(&mut self) -> Result<BTreeSet<String>, String> {
        let (token, text) = self.peek_value();
        match token {
            Token::End | Token::Comma => Ok(BTreeSet::from([String::new()])),
            Token::Identifier => {
                self.take();
                Ok(BTreeSet::from([text]))
            }
            _ => {
                self.take();
                Err(format!("found '{text}', expected: identifier"))
            }
        }
    }

    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        let (token, text) = self.take();
        if token != Token::Open {
            return Err(format!("found '{text}' expected: '('"));
        }
        let (token, text) = self.peek_value();
        match token {
            Token::Identifier | Token::Comma => {
                let values = self.identifiers()?;
                let (token, text) = self.take();
                if token == Token::Close {
                    Ok(values)
                } else {
                    Err(format!("found '{text}', expected: ')'"))
                }
            }
            Token::Close => {
                self.take();
                Ok(BTreeSet::from([String::new()]))
            }
            _ => {
                self.take();
                Err(format!("found '{text}', expected: ',', ')' or identifier"))
            }
        }
    }

    fn identifiers(&mut self) -> Result<BTreeSet<String>, String> {
        let mut values = BTreeSet::new();
        loop {
            let (token, text) = as_value(self.take());
            match token {
                Token::Identifier => {
                    values.insert(text);
                    match self.peek() {
                        (Token::Comma, _) => {}
                        (Token::Close, _) => return Ok(values),
                        (_, text) => return Err(format!("found '{text}', expected: ',' or ')'")),
                    }
                }
                Token::Comma => {
                    if values.is_empty() {
                        values.insert(String::new());
                    }
                    match self.peek_value().0 {
                        Token::Close => {
                            values.insert(String::new());
                            return Ok(values);
                        }
                        Token::Comma => {
                            self.take();
                            values.insert(String::new());
                        }
                        _ => {}
                    }
                }
                _ => return Err(format!("found '{text}', expected: ',', or identifier")),
            }
        }
    }
}

fn as_value((token, text): (Token, String)) -> (Token, String) {
    match token {
        Token::In | Token::NotIn => (Token::Identifier, text),
        _ => (token, text),
    }
}
