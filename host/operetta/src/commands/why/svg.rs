//! A sequence of messages as an SVG image.

use std::fmt::Write;

use super::sequence::{Message, participants};

/// The width of a participant's column in pixels.
const COLUMN: usize = 240;
/// The height of a message.
const ROW: usize = 44;
/// The height of the names.
const HEAD: usize = 56;
/// The maximum number of characters of a name or a message.
const MAX_TEXT: usize = 46;

/// Draws the messages.
pub fn draw(messages: &[Message]) -> String {
    let names = participants(messages);
    let width = COLUMN * names.len().max(1);
    let height = HEAD + ROW * (messages.len() + 1);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\" text-anchor=\"middle\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <defs><marker id=\"end\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"4\" orient=\"auto\">\
         <path d=\"M0 0 8 4 0 8z\"/></marker></defs>\n"
    );
    let middle = |name: &str| {
        let at = names.iter().position(|known| *known == name).unwrap_or_default();
        at * COLUMN + COLUMN / 2
    };
    for name in &names {
        let x = middle(name);
        // Writing to a String cannot fail.
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"24\" font-weight=\"bold\">{}</text>", escaped(name));
        let _ = writeln!(svg, "<path d=\"M{x} {} V{height}\" stroke=\"#bbb\"/>", HEAD - 20);
    }
    for (at, message) in messages.iter().enumerate() {
        draw_message(&mut svg, message, middle(&message.from), middle(&message.to), HEAD + ROW * at + ROW / 2);
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw_message(svg: &mut String, message: &Message, from: usize, to: usize, y: usize) {
    let path = match from == to {
        true => format!("M{from} {y} h30 v14 h-30"),
        false => format!("M{from} {y} H{to}"),
    };
    let _ = writeln!(svg, "<path d=\"{path}\" fill=\"none\" stroke=\"black\" marker-end=\"url(#end)\"/>");
    let text = escaped(&message.text);
    let _ = match from == to {
        true => writeln!(svg, "<text x=\"{}\" y=\"{}\" text-anchor=\"start\">{text}</text>", from + 36, y + 11),
        false => writeln!(svg, "<text x=\"{}\" y=\"{}\">{text}</text>", usize::midpoint(from, to), y - 6),
    };
}

/// Cuts a text, and escapes what XML would read as markup.
fn escaped(text: &str) -> String {
    let mut cut: String = text.chars().take(MAX_TEXT).collect();
    if text.chars().count() > MAX_TEXT {
        cut.push('…');
    }
    cut.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
