//! Responses by status.

use super::{At, Reader};
use crate::openapi::model::{Body, Response, Responses};
use crate::schema::Direction;

impl<'d> Reader<'d> {
    pub(super) fn responses(&mut self, at: Option<At<'d>>) -> Responses {
        let mut responses = Responses::default();
        let Some(at) = at else { return responses };
        if !matches!(at.node.kind, crate::document::Kind::Object(_)) {
            self.fault(at, format!("`responses` must be an object, not {}", at.node.kind_name()));
        }
        for (status, response) in at.members().filter(|(status, _)| !status.starts_with("x-")) {
            let Some(read) = self.follow(response).and_then(|at| self.response(at)) else { continue };
            match status_of(status) {
                Some(Status::Default) => responses.default = Some(read),
                Some(Status::Exact(status)) => responses.exact.push((status, read)),
                Some(Status::Range(class)) => {
                    responses.ranges.get_mut(class).into_iter().for_each(|range| *range = Some(read.clone()));
                }
                None => {
                    self.warn(response, format!("`{status}` is no status and is left out; write 200, 2XX or default"))
                }
            }
        }
        responses
    }

    fn response(&mut self, at: At<'d>) -> Option<Response> {
        if !self.known(at, "a response", &["description", "summary", "headers", "content", "links"]) {
            return None;
        }
        let headers = self.headers(at.get("headers"), Direction::Response);
        // Content of which nothing can be used is not the same as none: no body fits it.
        let content = at.get("content").filter(|content| !content.node.members().is_empty());
        let body =
            content.map(|content| Body { required: false, media: self.media_types(content, Direction::Response) });
        Some(Response { headers, body })
    }
}

enum Status {
    Default,
    Exact(u16),
    /// 0 for 1XX.
    Range(usize),
}

fn status_of(text: &str) -> Option<Status> {
    let bytes = text.as_bytes();
    match bytes {
        b"default" => Some(Status::Default),
        [class @ b'1'..=b'5', b'X' | b'x', b'X' | b'x'] => Some(Status::Range(usize::from(class - b'1'))),
        [b'1'..=b'5', b'0'..=b'9', b'0'..=b'9'] => text.parse().ok().map(Status::Exact),
        _ => None,
    }
}
