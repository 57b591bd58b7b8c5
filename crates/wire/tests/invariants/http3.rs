//! What must hold for any bytes read as streams and field sections of HTTP/3.

use wire::http::http3::Code;
use wire::http::http3::request::{Event, RequestReader};
use wire::http::http3::section::Section;
use wire::http::http3::streams::{ClientStream, Critical, Said};
use wire::http::qpack::{SectionError, SectionReader, begin_section, write_field};

/// Bytes of a section that a reader may hold here.
const MOST: usize = 100;

/// Reads a request's stream and one that its client opened for itself: wherever they are cut, they say the same.
pub fn http3(data: &[u8]) {
    let (requested, said) = (request(data, data.len().max(1)), client_stream(data, data.len().max(1)));
    for step in [1, 2, 3, 7, 64] {
        assert_eq!(request(data, step), requested, "{} by {step}", data.escape_ascii());
        assert_eq!(client_stream(data, step), said, "{} by {step}", data.escape_ascii());
    }
}

/// What a request's stream brings: whole sections, all of its content, how many frames for nobody; and how it ends.
type Request = (Vec<Vec<u8>>, Vec<u8>, usize, Result<bool, Code>);

fn request(data: &[u8], step: usize) -> Request {
    let (mut sections, mut content, mut nothing) = (Vec::new(), Vec::new(), 0);
    let mut reader = RequestReader::new(MOST);
    for mut piece in data.chunks(step) {
        loop {
            match reader.next(&mut piece) {
                Ok(Some(Event::Section(section))) => sections.push(section.into_owned()),
                Ok(Some(Event::TooLarge(section))) => {
                    assert!(section.len() <= MOST);
                    return (sections, content, nothing, Ok(true));
                }
                Ok(Some(Event::Data(data))) => {
                    assert!(!data.is_empty());
                    content.extend_from_slice(data);
                }
                Ok(Some(Event::Nothing)) => nothing += 1,
                Ok(None) => break,
                Err(code) => return (sections, content, nothing, Err(code)),
            }
        }
        assert!(piece.is_empty());
    }
    assert!(sections.len() <= 2 && sections.iter().all(|section| section.len() <= MOST));
    let end = reader.finish();
    (sections, content, nothing, end)
}

fn client_stream(data: &[u8], step: usize) -> (Vec<Said>, Result<(), Code>) {
    let (mut stream, mut critical, mut said) = (ClientStream::default(), Critical::default(), Vec::new());
    for mut piece in data.chunks(step) {
        loop {
            match stream.next(&mut piece, &mut critical) {
                Ok(Some(next)) => said.push(next),
                Ok(None) => break,
                Err(code) => return (said, Err(code)),
            }
        }
        assert!(piece.is_empty());
    }
    let end = stream.finish();
    (said, end)
}

/// Reads a section: fields that were read are written and read again, within a bound there are fewer of them but no others, and no request is in order
/// with a field that none may have.
pub fn qpack(data: &[u8]) {
    let mut reader = SectionReader::default();
    let mut fields: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let read = reader.read(data, usize::MAX, |name, value| fields.push((name.to_vec(), value.to_vec())));
    assert_ne!(read, Err(SectionError::TooLarge));
    let mut written = Vec::new();
    begin_section(&mut written);
    fields.iter().for_each(|(name, value)| write_field(name, value, &mut written));
    let mut again = Vec::new();
    reader.read(&written, usize::MAX, |name, value| again.push((name.to_vec(), value.to_vec()))).unwrap();
    assert!(again.iter().zip(&fields).all(|(one, other)| one.0.eq_ignore_ascii_case(&other.0) && one.1 == other.1));
    assert_eq!(again.len(), fields.len());
    let mut count = 0;
    let bounded = reader.read(data, 150, |name, value| {
        assert!(fields[count].0 == name && fields[count].1 == value);
        count += 1;
    });
    assert!(bounded == read || bounded == Err(SectionError::TooLarge));
    let mut section = Section::default();
    assert_eq!(section.read_head(data, usize::MAX, false).is_ok(), read.is_ok());
    if read.is_ok() && section.malformed().is_none() {
        let pseudo = fields.iter().take_while(|(name, _)| name.starts_with(b":")).count();
        assert_eq!(fields.len() - pseudo, section.fields().len());
        assert!(section.method().is_some() && (2..=5).contains(&pseudo));
        let is_in_order = |(name, value): (&[u8], &[u8])| {
            !name.is_empty()
                && !name.contains(&b':')
                && !name.iter().any(u8::is_ascii_uppercase)
                && !value.contains(&b'\n')
        };
        assert!(section.fields().iter().all(is_in_order));
    }
}
