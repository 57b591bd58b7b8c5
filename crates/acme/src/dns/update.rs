//! Dynamic updates of a name server (RFC 2136), signed (RFC 8945), over TCP: a record is added to those that are there, and taken away alone.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use config::{DnsUpdateConfig, TsigKeyConfig};
use hickory_proto::op::{DnsResponse, Message, ResponseCode, update_message};
use hickory_proto::rr::rdata::TXT;
use hickory_proto::rr::rdata::tsig::TsigAlgorithm;
use hickory_proto::rr::{Name, RData, Record as Entry, RecordSet, RecordType, TSigVerifier, TSigner};
use hickory_proto::serialize::binary::DecodeError;
use net::Chunk;
use transport::Transport;

use super::{Change, TxtRecord, propagation};

/// How far our clock and the server's may be apart, seconds.
const FUDGE_SECONDS: u16 = 300;

/// Largest response. One has the header, the zone and a signature.
const MAX_RESPONSE_BYTES: usize = 4096;

pub(super) async fn send(
    config: &DnsUpdateConfig,
    transport: &Transport,
    change: Change,
    record: &TxtRecord,
) -> Result<(), String> {
    let name = place(config, record).await?;
    let (bytes, id, verifier) = message(config, change, &name, &record.value)?;
    let length = u16::try_from(bytes.len()).map_err(|_| "the update is too long".to_owned())?;
    let broke = |_| "the connection broke".to_owned();
    transport.send(&[&length.to_be_bytes(), &bytes[..]].concat()).await.map_err(broke)?;
    let mut input = Chunk::empty();
    let response = loop {
        if let Some(response) = whole(&input)? {
            break response;
        }
        if transport.recv_more(&mut input).await.map_err(broke)? == 0 {
            return Err("the server closed the connection before a response".to_owned());
        }
    };
    read(response, id, verifier)
}

/// The name under which a record is set: its own, or the one that this is an alias of (CNAME), if only that is in a zone of ours.
async fn place(config: &DnsUpdateConfig, record: &TxtRecord) -> Result<String, String> {
    let own = record.name();
    if config.zone_of(&own).is_some() {
        return Ok(own);
    }
    let alias = propagation::alias_of(&own).await?;
    match config.zone_of(&alias) {
        Some(_) => Ok(alias),
        None => Err(format!("{own} is in no `zone`, and no alias (CNAME) of a name that is")),
    }
}

/// The update as bytes, its id, and what verifies the response.
fn message(
    config: &DnsUpdateConfig,
    change: Change,
    name: &str,
    value: &str,
) -> Result<(Vec<u8>, u16, Option<TSigVerifier>), String> {
    let zone = config.zone_of(name).ok_or_else(|| format!("{name} is in no `zone`"))?;
    let absolute = |name: &str| {
        let name = Name::from_ascii(format!("{name}.")).map_err(|error| format!("{name}: {error}"))?;
        Ok::<_, String>(name)
    };
    let (name, zone) = (absolute(name)?, absolute(zone)?);
    let ttl = u32::try_from(config.ttl.as_secs()).unwrap_or(u32::MAX);
    let text = RData::TXT(TXT::new(vec![value.to_owned()]));
    let mut set = RecordSet::new(name.clone(), RecordType::TXT, 0);
    set.insert(Entry::from_rdata(name, ttl, text), 0);
    let mut message = match change {
        Change::Set => update_message::append(set, zone, false, false),
        Change::Remove => update_message::delete_by_rdata(set, zone, false),
    };
    let verifier = config.key.as_ref().map(|key| sign(key, &mut message)).transpose()?.flatten();
    let id = message.id;
    Ok((message.to_vec().map_err(|error| error.to_string())?, id, verifier))
}

fn sign(key: &TsigKeyConfig, message: &mut Message) -> Result<Option<TSigVerifier>, String> {
    let algorithm = match key.algorithm.as_str() {
        "hmac-sha384" => TsigAlgorithm::HmacSha384,
        "hmac-sha512" => TsigAlgorithm::HmacSha512,
        _ => TsigAlgorithm::HmacSha256,
    };
    let secret = key.secret.read()?;
    let secret = BASE64_STANDARD.decode(secret.trim()).map_err(|_| "the secret of the key is not base64".to_owned())?;
    let name = Name::from_ascii(&key.name).map_err(|error| format!("the name of the key: {error}"))?;
    let signer = TSigner::new(secret, algorithm, name, FUDGE_SECONDS).map_err(|error| error.to_string())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    message.finalize(&signer, now).map_err(|error| format!("the update cannot be signed: {error}"))
}

/// The whole response, once it is there.
fn whole(input: &[u8]) -> Result<Option<&[u8]>, String> {
    let Some((length, rest)) = input.split_first_chunk::<2>() else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes(*length));
    if length > MAX_RESPONSE_BYTES {
        return Err(format!("the response is larger than {MAX_RESPONSE_BYTES} bytes"));
    }
    Ok(rest.get(..length))
}

/// What the server says of the update. Where we sign, it must sign, but for what it cannot.
fn read(response: &[u8], id: u16, verifier: Option<TSigVerifier>) -> Result<(), String> {
    let malformed = |error: DecodeError| format!("the response is malformed: {error}");
    let message = match verifier {
        None => Message::from_vec(response).map_err(malformed)?,
        Some(mut verifier) => {
            let code = Message::from_vec(response).map_err(malformed)?.response_code;
            let verified: Result<DnsResponse, _> = verifier.verify(response);
            match verified {
                Ok(response) => response.into_message(),
                // A server that does not know the key, or rejects the signature, cannot sign that.
                Err(_) if code != ResponseCode::NoError => return Err(rejected(code)),
                Err(error) => return Err(format!("the response is not signed as it should be: {error}")),
            }
        }
    };
    if message.id != id {
        return Err("the response is to something else".to_owned());
    }
    match message.response_code {
        ResponseCode::NoError => Ok(()),
        code => Err(rejected(code)),
    }
}

fn rejected(code: ResponseCode) -> String {
    format!("the name server rejected the update: {code}")
}
