//! Messages of enrolment, and tokens: what was read is written the same, cutting changes no decision, and nothing is beyond its bound.

use wire::enrolment::{MAX_REQUEST_BYTES, MAX_RESPONSE_BYTES, Proof, Request, Response, Token, is_node_name};

/// Any bytes as what a peer sent.
pub fn enrolment(data: &[u8]) {
    match Request::parse(data) {
        Ok(None) => assert!(data.len() < MAX_REQUEST_BYTES),
        Err(error) => assert_eq!(Request::parse(&[data, &[0]].concat()), Err(error)),
        Ok(Some((request, length))) => {
            assert!(length <= data.len().min(MAX_REQUEST_BYTES));
            super::cuts(length).for_each(|cut| assert_eq!(Request::parse(&data[..cut]), Ok(None)));
            let mut written = Vec::new();
            request.write_to(&mut written).unwrap();
            assert_eq!(written, data[..length]);
            if let Proof::Token { name, .. } = request.proof {
                assert!(is_node_name(name) && !name.contains(['/', '\0']) && !name.starts_with('.'));
            }
        }
    }
    match Response::parse(data) {
        Ok(None) => assert!(data.len() < MAX_RESPONSE_BYTES),
        Err(error) => assert_eq!(Response::parse(&[data, &[0]].concat()), Err(error)),
        Ok(Some((response, length))) => {
            super::cuts(length).for_each(|cut| assert_eq!(Response::parse(&data[..cut]), Ok(None)));
            let mut written = Vec::new();
            response.write_to(&mut written).unwrap();
            assert_eq!(written, data[..length]);
        }
    }
    if let Some((text, token)) = std::str::from_utf8(data).ok().and_then(|text| Some((text, Token::parse(text)?))) {
        assert_eq!(token.text(), text);
    }
}
