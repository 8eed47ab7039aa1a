//! The answers of the dashboard: bodies, headers, JSON whose numbers JavaScript can read.

use core::convert::Infallible;
use core::pin::Pin;
use core::task::{Context, Poll};

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName,
    HeaderValue, LOCATION,
};
use http::{Response, StatusCode};
use http_body::{Frame, SizeHint};
use serde::Serialize;
use serde_json::Value;

use super::views::Problem;

/// The largest integer that JavaScript reads exactly.
const EXACT: u64 = (1 << 53) - 1;

const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
     connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The body of an answer of a [`Dashboard`](super::Dashboard).
#[derive(Debug, Default)]
pub struct Body(Bytes);

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = core::mem::take(&mut self.0);
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}

/// Returns an answer with the headers that every answer has.
fn answer(status: u16, content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let body = body.into();
    let length = body.len();
    let mut answer = Response::new(Body(body));
    *answer.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = answer.headers_mut();
    let fixed = [
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "same-origin"),
        ("x-robots-tag", "noindex, nofollow"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    answer
}

/// Returns an answer of a text, with the headers for security that every answer of a [`Dashboard`](super::Dashboard) has:
/// for a server that refuses a request before the dashboard sees it.
#[must_use]
pub fn refusal(status: StatusCode, text: &'static str) -> Response<Body> {
    answer(status.as_u16(), "text/plain; charset=utf-8", text)
}

/// Returns a page.
pub(crate) fn page(status: u16, html: String) -> Response<Body> {
    answer(status, "text/html; charset=utf-8", html)
}

/// Returns JSON.
pub(crate) fn json(status: u16, value: &impl Serialize) -> Response<Body> {
    let mut value = serde_json::to_value(value).unwrap_or_default();
    make_exact(&mut value);
    answer(status, "application/json", value.to_string())
}

/// Returns a text.
pub(crate) fn text(status: u16, content_type: &'static str, text: String) -> Response<Body> {
    answer(status, content_type, text)
}

/// Returns a problem as JSON.
pub(crate) fn problem(problem: &Problem) -> Response<Body> {
    json(problem.status, problem)
}

/// Returns an attachment.
pub(crate) fn attachment(name: &str, bytes: Vec<u8>) -> Response<Body> {
    let mut answer = answer(200, "text/plain; charset=utf-8", bytes);
    if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        answer.headers_mut().insert(CONTENT_DISPOSITION, value);
    }
    answer
}

/// Returns an asset whose name changes with its content.
pub(crate) fn asset(content_type: &'static str, content: &'static str) -> Response<Body> {
    let mut answer = answer(200, content_type, content);
    let kept = HeaderValue::from_static("public, max-age=31536000, immutable");
    answer.headers_mut().insert(CACHE_CONTROL, kept);
    answer
}

/// Returns a redirect to a relative place. A form's answer (303) is read with GET.
pub(crate) fn redirect(status: u16, to: &str) -> Response<Body> {
    let mut answer = answer(status, "text/plain; charset=utf-8", "");
    match HeaderValue::from_str(to) {
        Ok(to) => drop(answer.headers_mut().insert(LOCATION, to)),
        Err(_) => *answer.status_mut() = StatusCode::BAD_REQUEST,
    }
    answer
}

/// Adds the methods that a place allows.
pub(crate) fn allowing(mut answer: Response<Body>, methods: &'static str) -> Response<Body> {
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    answer
}

/// Takes the body of the answer to a HEAD away. The length stays that of a GET.
pub(crate) fn head(answer: Response<Body>) -> Response<Body> {
    answer.map(|_| Body::default())
}

/// Turns the numbers that JavaScript would round into strings.
fn make_exact(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let is_large = number.as_u64().is_some_and(|it| it > EXACT)
                || number.as_i64().is_some_and(|it| it < -(EXACT as i64));
            if is_large {
                *value = Value::String(number.to_string());
            }
        }
        Value::Array(values) => values.iter_mut().for_each(make_exact),
        Value::Object(object) => object.values_mut().for_each(make_exact),
        _ => {}
    }
}
