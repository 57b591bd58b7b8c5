//! Bodies of fixed responses with variables in them: where one may stand, and how it is written there, follows from the media type.
//!
//! Closed: of text, JSON, HTML and XML. In JSON a variable stands within a string, which is no name of a member. In HTML and XML it stands in text or in an
//! attribute that is only shown, never where a browser would take it for a script, a style or an address (`Markup`). What a body is like is what its literal
//! text makes of it: no value can hold a character that changes that.

use super::Fault;
use super::placeholders::{Claims, Scope, cut, placeholder};
use crate::model::{Escape, PathPattern, Template, TemplatePart};
use crate::problem::shown;

/// Most variables in a body: with the longest values that are written, they bound what a request can make of it.
const MAX_VARIABLES: usize = 64;

/// Reads a body that a file holds.
///
/// # Errors
/// What is wrong with it, and the fix.
pub fn body_of_file(text: &str, path: &PathPattern, content_type: &str) -> Result<Template, String> {
    let parameters: Vec<&str> = path.parameters().collect();
    let scope = Scope { parameters: &parameters, empty: &[], claims: Claims::InFile };
    body_template(text, scope, content_type).map_err(|fault| format!("{}; fix: {}", fault.what, fault.fix))
}

/// Reads a body with variables.
pub(super) fn body_template(text: &str, scope: Scope<'_>, content_type: &str) -> Result<Template, Fault> {
    let escape = escape_of(content_type)?;
    let parts = cut(text, escape, false, |name| placeholder(name, scope))?;
    let variables = parts.iter().filter(|part| !matches!(part, TemplatePart::Text(_))).count();
    if variables > MAX_VARIABLES {
        return Err(Fault::new(
            format!("the body has {variables} variables"),
            format!("use at most {MAX_VARIABLES}; a page that is made of more is an upstream's"),
        ));
    }
    match escape {
        Escape::Json => check_json(&parts)?,
        Escape::Markup => Markup::check(&parts, content_type.to_ascii_lowercase().starts_with("text/html"))?,
        _ => {}
    }
    Ok(Template { parts })
}

/// How values are written into a body of this type.
pub(super) fn escape_of(content_type: &str) -> Result<Escape, Fault> {
    let mut pieces = content_type.split(';').map(str::trim);
    let essence = pieces.next().unwrap_or_default().to_ascii_lowercase();
    let charset =
        pieces.filter_map(|piece| piece.split_once('=')).find(|(name, _)| name.eq_ignore_ascii_case("charset"));
    let is_utf8 = charset
        .map(|(_, charset)| matches!(charset.trim_matches('"').to_ascii_lowercase().as_str(), "utf-8" | "us-ascii"));
    // What is escaped for one encoding may be something else in another one, and a browser guesses where none is said.
    if is_utf8 == Some(false) || (is_utf8.is_none() && essence.starts_with("text/")) {
        let what = format!("variables stand in bodies of UTF-8, which {} does not say it is", shown(content_type));
        return Err(Fault::new(what, format!("write {}", shown(&format!("{essence}; charset=utf-8")))));
    }
    match essence.as_str() {
        "text/plain" => Ok(Escape::Text),
        "text/html" | "application/xhtml+xml" | "application/xml" | "text/xml" => Ok(Escape::Markup),
        "application/json" => Ok(Escape::Json),
        other if other.ends_with("+json") => Ok(Escape::Json),
        other if other.ends_with("+xml") => Ok(Escape::Markup),
        _ => Err(Fault::new(
            format!("no rule says how variables are written into {}", shown(&essence)),
            "use text/plain, text/html, JSON or XML, or leave `template` out",
        )),
    }
}

/// JSON in which placeholders stand within strings that are values.
fn check_json(parts: &[TemplatePart]) -> Result<(), Fault> {
    let outside = || Fault::new("a variable stands outside of a string of the JSON", "write it between quotes");
    let (mut whole, mut is_string, mut is_escape) = (String::new(), false, false);
    // A variable stands in this string, or in the last one.
    let mut holds_variable = false;
    for part in parts {
        let TemplatePart::Text(text) = part else {
            if !is_string || is_escape {
                return Err(outside());
            }
            holds_variable = true;
            whole.push('x');
            continue;
        };
        for character in text.chars() {
            match character {
                _ if is_escape => is_escape = false,
                '\\' if is_string => is_escape = true,
                '"' => {
                    is_string = !is_string;
                    holds_variable &= !is_string;
                }
                ':' if !is_string && holds_variable => {
                    return Err(Fault::new("a variable stands in the name of a member", "write it into a value"));
                }
                _ => holds_variable &= is_string || character.is_ascii_whitespace(),
            }
        }
        whole.push_str(text);
    }
    match serde_json::from_str::<serde_json::Value>(&whole) {
        Ok(_) => Ok(()),
        Err(error) => Err(Fault::new(
            format!("the body is no JSON: {error}"),
            "correct it; literal braces are written `{{` and `}}`",
        )),
    }
}

/// Attributes that are shown, and nothing else.
const SHOWN_ATTRIBUTES: [&str; 6] = ["alt", "aria-label", "label", "placeholder", "title", "value"];

/// Elements whose content is no markup (HTML, "Parsing HTML documents"), or a script or style all the same (SVG).
const RAW_ELEMENTS: [&str; 8] = ["script", "style", "xmp", "iframe", "noembed", "noframes", "noscript", "plaintext"];
/// The same, but for references to characters.
const TEXT_ELEMENTS: [&str; 2] = ["title", "textarea"];

/// Where in HTML or XML the literal text before a placeholder ends.
#[derive(Debug, Default)]
struct Markup {
    place: Place,
    /// The element that is begun or ended.
    name: String,
    is_end: bool,
    attribute: String,
    /// What was read of text that may be the end of a raw element or of a comment.
    seen: String,
    /// Readers may differ on what follows.
    is_odd: bool,
    /// There are no raw elements: in XML, and in SVG within HTML.
    is_xml: bool,
    /// The content of a `noscript` as readers without scripts take it, which is as markup.
    inner: Option<Box<Markup>>,
    is_inner: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    #[default]
    Text,
    /// Behind `<`.
    Open,
    Name,
    /// Between attributes.
    Tag,
    Attribute,
    /// Behind an attribute's name.
    Equals,
    /// Behind its `=`.
    Value,
    Quoted(char),
    Unquoted,
    /// Within an element whose content is no markup.
    Raw,
    /// A comment, CDATA, or a declaration.
    Aside(&'static str),
}

impl Markup {
    /// Rejects a body with a variable where it could become more than text.
    fn check(parts: &[TemplatePart], is_html: bool) -> Result<(), Fault> {
        let mut markup = Markup { is_xml: !is_html, ..Markup::default() };
        for part in parts {
            match part {
                TemplatePart::Text(text) => text.chars().for_each(|character| markup.read(character)),
                TemplatePart::Param { .. } | TemplatePart::Variable { .. } => markup.allow()?,
            }
        }
        Ok(())
    }

    fn allow(&self) -> Result<(), Fault> {
        let fix = format!(
            "put it into text, or between quotes into one of the attributes {}",
            SHOWN_ATTRIBUTES.map(|name| format!("`{name}`")).join(", ")
        );
        let what = match self.place {
            _ if self.is_odd => "a variable stands behind markup that readers take for different things".to_owned(),
            Place::Text => return Ok(()),
            Place::Raw if TEXT_ELEMENTS.contains(&self.local_name()) => return Ok(()),
            Place::Raw => format!("a variable stands in `<{}>`", self.name),
            Place::Quoted(_) if self.local_name() != "param" && SHOWN_ATTRIBUTES.contains(&self.attribute.as_str()) => {
                return Ok(());
            }
            Place::Quoted(_) => format!("a variable stands in the attribute `{}` of `<{}>`", self.attribute, self.name),
            Place::Value | Place::Unquoted => "a variable stands in an attribute without quotes".to_owned(),
            Place::Open | Place::Name | Place::Tag | Place::Attribute | Place::Equals => {
                "a variable stands within a tag".to_owned()
            }
            Place::Aside(_) => "a variable stands in a comment or declaration".to_owned(),
        };
        Err(Fault::new(what, fix))
    }

    fn read(&mut self, character: char) {
        let is_space = character.is_ascii_whitespace();
        self.place = match (self.place, character) {
            (Place::Text, '<') => {
                (self.is_end, self.name, self.attribute) = (false, String::new(), String::new());
                Place::Open
            }
            (Place::Text, _) => Place::Text,
            (Place::Open, '/') if !self.is_end => {
                self.is_end = true;
                Place::Open
            }
            (Place::Open, '!') if !self.is_end => self.aside("!"),
            (Place::Open, '?') if !self.is_end => self.aside("?"),
            (Place::Open, letter) if letter.is_ascii_alphabetic() => {
                self.name.push(letter.to_ascii_lowercase());
                Place::Name
            }
            // `</` before anything but a letter begins a comment in HTML and is an error in XML.
            (Place::Open, _) if self.is_end => self.odd(),
            (Place::Open, '<') => Place::Open,
            (Place::Open, _) => Place::Text,
            (Place::Name | Place::Tag | Place::Attribute | Place::Equals | Place::Unquoted | Place::Value, '>') => {
                self.opened()
            }
            (Place::Name | Place::Attribute, '/') => Place::Tag,
            (Place::Name, _) if is_space => Place::Tag,
            (Place::Name, other) => {
                self.name.extend(other.to_lowercase());
                Place::Name
            }
            (Place::Tag, '/') => Place::Tag,
            (Place::Tag, _) if is_space => Place::Tag,
            (Place::Tag | Place::Attribute, '<' | '"' | '\'' | '`') => self.odd(),
            (Place::Tag, other) => {
                self.attribute = other.to_lowercase().collect();
                Place::Attribute
            }
            (Place::Attribute, '=') => Place::Value,
            (Place::Attribute, _) if is_space => Place::Equals,
            (Place::Attribute, other) => {
                self.attribute.extend(other.to_lowercase());
                Place::Attribute
            }
            (Place::Equals, '=') => Place::Value,
            (Place::Equals, '/') => Place::Tag,
            (Place::Equals, _) if is_space => Place::Equals,
            (Place::Equals, other) => {
                self.attribute = other.to_lowercase().collect();
                Place::Attribute
            }
            (Place::Value, '"' | '\'') => Place::Quoted(character),
            (Place::Value, _) if is_space => Place::Value,
            (Place::Value, _) => Place::Unquoted,
            (Place::Unquoted, _) if is_space => Place::Tag,
            (Place::Unquoted, _) => Place::Unquoted,
            (Place::Quoted(quote), _) if character == quote => Place::Tag,
            (Place::Quoted(quote), _) => Place::Quoted(quote),
            (Place::Raw, _) => self.raw(character),
            (Place::Aside(end), _) => self.within_aside(end, character),
        };
    }

    /// The name of the element without a prefix, which in XML may be any.
    fn local_name(&self) -> &str {
        self.name.rsplit(':').next().unwrap_or_default()
    }

    /// Whether what was read last is the end tag of an element.
    fn has_ended(&self, name: &str) -> bool {
        self.is_end && self.name == name && matches!(self.place, Place::Text | Place::Tag)
    }

    /// A tag is whole.
    fn opened(&mut self) -> Place {
        let name = self.local_name();
        let is_raw = RAW_ELEMENTS.contains(&name) || TEXT_ELEMENTS.contains(&name);
        self.is_xml |= matches!(name, "svg" | "math");
        self.seen.clear();
        if !is_raw || self.is_end {
            return Place::Text;
        }
        if self.local_name() == "noscript" {
            self.is_odd |= self.is_inner;
            self.inner = (!self.is_inner).then(|| Box::new(Markup { is_inner: true, ..Markup::default() }));
        }
        Place::Raw
    }

    /// Text of an element that only its own end tag ends.
    fn raw(&mut self, character: char) -> Place {
        if let Some(inner) = &mut self.inner {
            inner.read(character);
        }
        self.seen.push(character.to_ascii_lowercase());
        let Some(at) = self.seen.rfind('<') else {
            self.seen.clear();
            return Place::Raw;
        };
        self.seen.drain(..at);
        let end = format!("</{}", self.name);
        if self.seen.starts_with(&end) && self.seen.len() > end.len() {
            // Behind the name stands what ends it, or it is another name.
            let place = match character {
                '>' => Place::Text,
                '/' | '\t' | '\n' | '\x0c' | '\r' | ' ' => {
                    (self.is_end, self.attribute) = (true, String::new());
                    Place::Tag
                }
                _ => Place::Raw,
            };
            self.seen.clear();
            if place != Place::Raw
                && self.inner.take().is_some_and(|inner| inner.is_odd || !inner.has_ended("noscript"))
            {
                return self.odd();
            }
            return place;
        }
        // Markup in there is text for some readers only, and a script that begins with a comment ends elsewhere.
        if !end.starts_with(&self.seen) {
            let is_markup = self.seen.chars().nth(1).is_some_and(|second| second.is_alphabetic() || second == '?');
            let is_text = TEXT_ELEMENTS.contains(&self.local_name());
            self.is_odd |= self.seen.starts_with("<!") || (is_markup && (self.is_xml || is_text));
            self.seen.clear();
        }
        Place::Raw
    }

    fn aside(&mut self, start: &str) -> Place {
        self.seen = start.to_owned();
        Place::Aside(if start == "?" { "?>" } else { ">" })
    }

    fn within_aside(&mut self, end: &'static str, character: char) -> Place {
        self.seen.push(character);
        match self.seen.as_str() {
            "!--" => return Place::Aside("-->"),
            "![CDATA[" => return Place::Aside("]]>"),
            // HTML knows no processing instructions, and ends a comment here; XML goes on.
            _ if end == "?>" && character == '>' && !self.seen.ends_with("?>") => return self.odd(),
            // What begins a document type may go on in brackets (XML).
            _ if end == ">" && character == '[' && !self.seen.starts_with("![") => return self.odd(),
            // Comments of HTML end in more than one way.
            "!-->" | "!--->" => return self.odd(),
            seen if seen.ends_with("--!>") => return self.odd(),
            seen if seen.ends_with(end) => {}
            _ => return Place::Aside(end),
        }
        // To HTML, CDATA is a comment that ends at the first `>`.
        let is_odd = end == "]]>" && self.seen.matches('>').count() > 1;
        if is_odd { self.odd() } else { Place::Text }
    }

    fn odd(&mut self) -> Place {
        self.is_odd = true;
        Place::Text
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    const SCOPE: Scope<'_> = Scope { parameters: &["p"], empty: &[], claims: Claims::Verified };

    fn check(content_type: &str, body: &str) -> Result<Template, Fault> {
        body_template(body, SCOPE, content_type)
    }

    #[test]
    fn types_have_a_rule_or_none() {
        for (content_type, expected) in [
            ("text/plain; charset=utf-8", Ok(Escape::Text)),
            ("Text/HTML;charset=\"UTF-8\"", Ok(Escape::Markup)),
            ("application/problem+json", Ok(Escape::Json)),
            ("image/svg+xml", Ok(Escape::Markup)),
            ("text/html", Err("text/html; charset=utf-8")),
            ("text/html; charset=utf-7", Err("text/html; charset=utf-8")),
            ("application/json; charset=iso-2022-jp", Err("application/json; charset=utf-8")),
            ("text/javascript; charset=utf-8", Err("leave `template` out")),
            ("text/css; charset=utf-8", Err("leave `template` out")),
            ("text/csv; charset=utf-8", Err("leave `template` out")),
            ("application/octet-stream", Err("leave `template` out")),
        ] {
            let found = escape_of(content_type);
            match (&found, expected) {
                (Ok(escape), Ok(expected)) => assert_eq!(*escape, expected, "{content_type}"),
                (Err(fault), Err(fix)) => assert!(fault.fix.contains(fix), "{content_type}: {fault:?}"),
                _ => panic!("{content_type}: {found:?}"),
            }
        }
    }

    #[test]
    fn text_is_cut_at_braces_and_nothing_else() {
        let parts = check("text/plain; charset=utf-8", "$http ${{x}} {p}{{").unwrap().parts;
        assert!(
            matches!(&parts[..], [TemplatePart::Text(start), TemplatePart::Param { .. }, TemplatePart::Text(end)] if start == "$http ${x} " && end == "{"),
            "{parts:?}"
        );
        for wrong in ["{", "{nothing}", "function() { return }", "${x}"] {
            assert!(check("text/plain; charset=utf-8", wrong).is_err(), "{wrong}");
        }
        let many = "{p}".repeat(65);
        assert!(check("text/plain; charset=utf-8", &many).unwrap_err().fix.contains("at most 64"));
    }

    #[test]
    fn in_json_a_variable_stands_in_a_string() {
        for good in
            [r#"{{"a":"{p}","b":["x{p}y{host}", 1]}}"#, r#""{p}""#, r#"{{"a\"":"\\{p}"}}"#, r#"{{"b":"{p}" , "c": 1}}"#]
        {
            assert!(check("application/json", good).is_ok(), "{good}");
        }
        for (bad, what) in [
            (r#"{{"a":{p}}}"#, "outside of a string"),
            ("{p}", "outside of a string"),
            (r#"{{"{p}":1}}"#, "in the name of a member"),
            (r#"{{"a{p}b" : 1}}"#, "in the name of a member"),
            (r#"{{"a":"\{p}"}}"#, "outside of a string"),
            (r#"{{"a":"{p}",}}"#, "no JSON"),
            (r#"{{"a":"{p}"#, "no JSON"),
            (r#"{{"a":"{p}"}} {{}}"#, "no JSON"),
        ] {
            let fault = check("application/json", bad).unwrap_err();
            assert!(fault.what.contains(what), "{bad}: {fault:?}");
        }
    }

    #[test]
    fn in_markup_a_variable_is_shown_and_nothing_else() {
        for good in [
            "{p}",
            "<!doctype html><html><head><title>{p}</title></head><body><p class=a>{p}</p>",
            "<INPUT type=text VALUE = \"{p}\" />{p}",
            "<input value='a {p}'>",
            "<textarea name=\"a\">{p}</textarea>",
            "<script src=\"a.js\">var a = 1 < 2;</script>{p}",
            "<style>a {{ }}</style ><p>{p}</p>",
            "<!-- a > b -- c --><p>{p}",
            "<?xml version=\"1.0\"?><a><b title=\"{p}\">{p}</b></a>",
            "<a><![CDATA[x]]></a>{p}",
            "1 < 2 {p} <",
            "<p data-x=\"{{}}\" title=\"{p}\">",
            "<script>if (a<b) {{ c }}</script><noscript><img src=x></noscript>{p}",
            "<noscript><iframe src=\"x\"></iframe></noscript ><p>{p}",
            "<svg><text>{p}</text></svg>",
            "<br/>{p}",
        ] {
            assert!(
                check("text/html; charset=utf-8", good).is_ok(),
                "{good}: {:?}",
                check("text/html; charset=utf-8", good)
            );
        }
    }

    #[test]
    fn in_markup_no_variable_is_more_than_text() {
        for bad in [
            "<script>{p}</script>",
            "<SCRIPT\n>var a = '{p}'</SCRIPT>",
            "<script></scripty>{p}</script>",
            "<script><!--<script></script>{p}",
            "<style>a {{ color: {p} }}</style>",
            "<svg><title><script>{p}</script></title></svg>",
            "<noscript>{p}</noscript>",
            "<noscript><style></noscript>{p}",
            "<noscript><a title=\"</noscript>{p}",
            "<noscript><noscript></noscript>{p}",
            "<svg><style><a href=\"</style>{p}\">",
            "<svg:script>{p}</svg:script>",
            "<plaintext>{p}",
            "<a href=\"{p}\">",
            "<a href=\"/x?q={p}\">",
            "<img onerror='{p}'>",
            "<p style=\"{p}\">",
            "<meta http-equiv=refresh content=\"{p}\">",
            "<iframe srcdoc=\"{p}\">",
            "<a title={p}>",
            "<a title=a{p}>",
            "<a {p}=\"b\">",
            "<a {p}>",
            "<{p}>",
            "<a{p}>",
            "</{p}>",
            "<a title= {p}>",
            "<p title=\"a\" {p}>",
            "<p title=\"a\"data-x=\"{p}\">",
            "<p title='\"{p}' onclick=\"{p}\">",
            "<p title=\"a'\" onclick='{p}'>",
            "<!-- {p} -->",
            "<!--> {p} -->",
            "<!--->{p}-->",
            "<!-- --!> {p} -->",
            "<!doctype {p}>",
            "<!DOCTYPE a [<!ENTITY b \"c\">]>{p}",
            "<?php {p} ?>",
            "<?a > {p} ?>",
            "<![CDATA[ {p} ]]>",
            "<![CDATA[ > <script> ]]>{p}",
            "</ a>{p}",
            "<a \"{p}\">",
            "<a title=\"x\" <script>{p}",
            "<param value=\"{p}\">",
        ] {
            assert!(check("text/html; charset=utf-8", bad).is_err(), "{bad}");
        }
    }
}
