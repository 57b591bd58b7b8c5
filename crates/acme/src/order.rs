//! One order, from its authority's first word to the file with key and chain. Goes on where it was left.
//!
//! ```text
//! account → order (new, or the one that was begun) → each name proved → ready → finalized → valid → chain checked → kept
//! ```

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use config::{AcmeConfig, ChallengeKind};
use instant_acme::{
    AuthorizationHandle, AuthorizationStatus, CertificateIdentifier, ChallengeStatus, Error, Identifier, NewOrder,
    Order, OrderStatus, RetryPolicy,
};
use proxy::challenges::Challenges;
use zeroize::Zeroizing;

use crate::authority::{Authority, explain, explain_problem, patiently};
use crate::dns::{StandingRecord, TxtRecord, Zones};
use crate::elsewhere::{KeyServers, Unsigned, is_of_type};
use crate::foreign::{self, is_same_directory, shown};
use crate::internal::{self, Permitted};
use crate::key::{self, Held, OrderKey};
use crate::peers::{Peers, Proof, is_token};
use crate::proof;
use crate::storage::{Begun, Record, Storage};
use crate::wanted::Wanted;

/// First pause between two looks at an order.
const FIRST_LOOK: Duration = Duration::from_millis(250);

/// How fast pauses grow.
const LOOKS_GROW: f32 = 1.5;

/// Everything that an order needs.
pub struct Job {
    /// The keystore that it is for.
    pub keystore: String,
    /// What is ordered.
    pub wanted: Wanted,
    /// How.
    pub acme: Arc<AcmeConfig>,
    /// Who is asked, in this order.
    pub authorities: Vec<Rc<Authority>>,
    /// Where it is kept.
    pub storage: Storage,
    /// Where names are proved.
    pub challenges: Arc<Challenges>,
    /// How names are proved, the preferred way first.
    pub kinds: Vec<ChallengeKind>,
    /// Who sets records in the DNS.
    pub zones: Option<Zones>,
    /// Who makes and keeps its key, if that is not done here.
    pub key_servers: Option<Rc<KeyServers>>,
    /// The other nodes of the fleet, which show the proofs, too.
    pub peers: Option<Arc<dyn Peers>>,
    /// What it takes the place of.
    pub replaces: Option<CertificateIdentifier<'static>>,
}

/// A certificate that was issued.
#[derive(Debug)]
pub struct Issued {
    /// It.
    pub held: Held,
    /// Who issued it: host, and URL of the directory.
    pub authority: (String, String),
}

/// Keeps a proof where authorities find it.
type Showing = Box<dyn Send>;

/// Why there is no certificate. Its text may be made of what the authority wrote, and is fit for the log.
#[derive(Debug)]
struct Problem {
    text: String,
    /// The authority did not find the proof of a name.
    is_unproved: bool,
}

impl Problem {
    fn unproved(text: String) -> Problem {
        Problem { text: foreign::problem(&text), is_unproved: true }
    }
}

impl From<String> for Problem {
    fn from(text: String) -> Problem {
        Problem { text: foreign::problem(&text), is_unproved: false }
    }
}

/// Who we are to an authority, and who it is to the DNS.
struct Client {
    issuers: Vec<String>,
    account: String,
}

impl Client {
    /// The record that must stand in the DNS for a host.
    fn standing_record(&self, host: &str, wildcard: bool) -> Result<StandingRecord, String> {
        if self.issuers.is_empty() {
            return Err("the directory does not say what the authority is called in the DNS (`caaIdentities`); name it as `issuer` of `directory`".to_owned());
        }
        let (issuers, account) = (self.issuers.clone(), self.account.clone());
        Ok(StandingRecord { host: host.to_ascii_lowercase(), issuers, account, wildcard })
    }
}

/// What came of trying one authority.
#[derive(Debug)]
pub struct Attempt {
    /// Its host.
    pub authority: String,
    /// Why there is no certificate from it; none if there is.
    pub problem: Option<String>,
}

impl Job {
    /// Orders the certificate from one authority after the other. What is known of it is on disk at the end, whatever that is.
    pub async fn run(self, mut record: Record) -> (Result<Issued, String>, Vec<Attempt>, Record) {
        let mut attempts = Vec::new();
        if self.acme.is_internal {
            let problem = match self.issue_internally().await {
                Ok(held) => {
                    return self.issued(held, (internal::NAME, internal::NAME), record.demanded, attempts).await;
                }
                Err(problem) => problem,
            };
            attempts.push(Attempt { authority: internal::NAME.to_owned(), problem: Some(problem) });
        }
        for authority in &self.authorities {
            let host = &authority.config.host;
            if let Some(until) = authority.pause(SystemTime::now()) {
                let problem = format!("it wants to be left alone until {}", keystore::date::date(until));
                attempts.push(Attempt { authority: host.clone(), problem: Some(problem) });
                continue;
            }
            let limit = self.acme.options.order_timeout;
            let outcome = match tokio::time::timeout(limit, self.order_from(authority, &mut record)).await {
                Ok(outcome) => outcome,
                Err(_) => Err(format!("no certificate in {limit:?}").into()),
            };
            self.clean_up(&mut record).await;
            record.unproved += u32::from(outcome.as_ref().is_err_and(|problem| problem.is_unproved));
            let problem = outcome.as_ref().err().map(|problem| problem.text.clone());
            if let Some(problem) = &problem {
                let (keystore, names) = (&self.keystore, self.wanted.shown());
                tracing::warn!(keystore, names, authority = host, "not issued by this authority: {problem}");
            }
            if let Ok(held) = outcome {
                return self.issued(held, (host, &authority.config.url), record.demanded, attempts).await;
            }
            attempts.push(Attempt { authority: host.clone(), problem });
        }
        let problems =
            attempts.iter().filter_map(|attempt| Some(format!("{}: {}", attempt.authority, attempt.problem.as_ref()?)));
        let problem = problems.collect::<Vec<_>>().join("; ");
        record.failures = record.failures.saturating_add(1);
        record.failed = Some((SystemTime::now(), problem.clone()));
        let problem = match self.keep_record(&record).await {
            Ok(()) => problem,
            Err(more) => format!("{problem}; {more}"),
        };
        (Err(problem), attempts, record)
    }

    /// What a certificate that is there leaves behind.
    async fn issued(
        &self,
        held: Held,
        (host, url): (&str, &str),
        demanded: Option<SystemTime>,
        mut attempts: Vec<Attempt>,
    ) -> (Result<Issued, String>, Vec<Attempt>, Record) {
        attempts.push(Attempt { authority: host.to_owned(), problem: None });
        let record = Record { issued_by: Some(url.to_owned()), demanded, ..Record::default() };
        let kept = self.keep_record(&record).await;
        // The certificate is there; what is lost is who issued it.
        kept.unwrap_or_else(|problem| tracing::warn!("{problem}"));
        (Ok(Issued { held, authority: (host.to_owned(), url.to_owned()) }), attempts, record)
    }

    /// Has it issued by the CA in the folder.
    async fn issue_internally(&self) -> Result<Held, String> {
        let (storage, wanted, permitted) = (self.storage.clone(), self.wanted.clone(), Permitted::of(&self.acme));
        let issued = tokio::task::spawn_blocking(move || {
            let (text, held) = internal::issue(&storage, &permitted, &wanted)?;
            storage.keep(&wanted, &text).map(|()| held)
        });
        issued.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    async fn order_from(&self, authority: &Authority, record: &mut Record) -> Result<Held, Problem> {
        let account = authority.account().await?;
        let mut order = match self.begun(authority, &account, record).await {
            Some(order) => order,
            None => self.begin(authority, &account, record).await?,
        };
        let client = Client { issuers: authority.issuers(), account: account.id().to_owned() };
        let published = match self.authorize(&mut order, &client, record).await {
            Ok(published) => published,
            Err(problem) => {
                record.order = None;
                return Err(problem.into());
            }
        };
        let outcome = self.finish(&mut order, record).await;
        drop(published);
        let chain = match outcome {
            Ok(chain) => chain,
            Err(problem) => {
                // One that is still under way may come to a good end; any other never will.
                if !matches!(order.state().status, OrderStatus::Processing | OrderStatus::Valid) {
                    record.order = None;
                }
                return Err(problem);
            }
        };
        let checked = key::check(&self.wanted, &key_of(record)?, &chain);
        let (text, held) = checked.inspect_err(|_| record.order = None)?;
        let (storage, wanted) = (self.storage.clone(), self.wanted.clone());
        let kept = tokio::task::spawn_blocking(move || storage.keep(&wanted, &text)).await;
        kept.unwrap_or_else(|error| Err(error.to_string()))?;
        Ok(held)
    }

    /// The order that was begun before, if there still is one.
    async fn begun(
        &self,
        authority: &Authority,
        account: &instant_acme::Account,
        record: &mut Record,
    ) -> Option<Order> {
        let is_whole = |begun: &&Begun| {
            let is_kept_as_before = key::is_elsewhere(&begun.key) == self.key_servers.is_some();
            is_kept_as_before && is_same_directory(&begun.authority, &authority.config.url) && !begun.url.is_empty()
        };
        let begun = record.order.as_ref().filter(is_whole)?;
        let url = begun.url.clone();
        let found = patiently!(account.order(url.clone())).ok();
        let found = found.and_then(|mut order| (order.state().status != OrderStatus::Invalid).then_some(order));
        if found.is_none() {
            record.order = None;
        }
        found
    }

    /// Begins an order, with a key of its own. Both are on disk before anything is finalized. The URL is what the authority responds with (RFC 8555 §7.4), so
    /// who ends between that response and its writing leaves an order that nobody goes on with: the next one makes another.
    async fn begin(
        &self,
        authority: &Authority,
        account: &instant_acme::Account,
        record: &mut Record,
    ) -> Result<Order, String> {
        let key = match &self.key_servers {
            Some(servers) => self.key_elsewhere(servers, record).await?,
            None => self.key_here().await?,
        };
        // Nothing is ordered that could not be kept: this is about as large as what will be.
        let mut begun = Begun { authority: authority.config.url.clone(), url: String::new(), key };
        record.order = Some(begun.clone());
        if let Err(problem) = self.keep_record(record).await {
            record.order = None;
            return Err(problem);
        }
        let order = match self.ask_for(authority, account, record.issued_by.as_deref()).await {
            Ok(order) => order,
            Err(error) => {
                record.order = None;
                authority.forget(&error).await;
                return Err(explain(&error));
            }
        };
        order.url().clone_into(&mut begun.url);
        record.order = Some(begun);
        self.keep_record(record).await?;
        Ok(order)
    }

    async fn key_here(&self) -> Result<Zeroizing<String>, String> {
        let key_type = self.wanted.key_type;
        let key = tokio::task::spawn_blocking(move || keystore::keys::generate(key_type)).await;
        key.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// The public half of a key at a key server: of the one that was made for an order before, of the one that the certificate has, or of a new one.
    async fn key_elsewhere(&self, servers: &KeyServers, record: &mut Record) -> Result<Zeroizing<String>, String> {
        if let Some(made) = &record.made_key {
            return Ok(made.clone());
        }
        let (storage, wanted) = (self.storage.clone(), self.wanted.clone());
        let held = tokio::task::spawn_blocking(move || storage.public_key(&wanted)).await;
        let is_usable = |held: &Zeroizing<String>| {
            OrderKey::of_pem(held).is_ok_and(|key| is_of_type(self.wanted.key_type, key.public_spki_der()))
        };
        match held.ok().flatten().filter(is_usable) {
            Some(held) => Ok(held),
            None => self.make_elsewhere(servers, record).await,
        }
    }

    /// Has a key made at a key server, and notes its public half on disk, so that no further one is made for this certificate.
    async fn make_elsewhere(&self, servers: &KeyServers, record: &mut Record) -> Result<Zeroizing<String>, String> {
        let made = key::public_pem(&servers.make(self.wanted.key_type).await?);
        record.made_key = Some(made.clone());
        self.keep_record(record).await?;
        Ok(made)
    }

    /// The request for the certificate. A key that its key server has no more is replaced by a new one.
    async fn request(&self, record: &mut Record) -> Result<Vec<u8>, String> {
        let Some(servers) = &self.key_servers else { return key::request(&self.wanted, &key_of(record)?) };
        match self.request_elsewhere(servers, &key_of(record)?).await {
            Ok(request) => return Ok(request),
            Err(Unsigned::Unknown) => {}
            Err(Unsigned::Other(problem)) => return Err(problem),
        }
        let (keystore, names) = (&self.keystore, self.wanted.shown());
        tracing::warn!(keystore, names, "the key servers do not have the key of this certificate; a new one is made");
        let made = self.make_elsewhere(servers, record).await?;
        if let Some(begun) = &mut record.order {
            begun.key = made;
        }
        self.keep_record(record).await?;
        self.request_elsewhere(servers, &key_of(record)?).await.map_err(|unsigned| match unsigned {
            Unsigned::Unknown => {
                "the key servers do not have the key that was just made; those of a group must hold the same keys"
                    .to_owned()
            }
            Unsigned::Other(problem) => problem,
        })
    }

    async fn request_elsewhere(&self, servers: &KeyServers, key_pem: &str) -> Result<Vec<u8>, Unsigned> {
        let key = OrderKey::of_pem(key_pem).map_err(Unsigned::Other)?;
        let spki = key.public_spki_der();
        let message = key::to_be_signed(&self.wanted, spki).map_err(Unsigned::Other)?;
        let signature = servers.sign(self.wanted.key_type, spki, &message).await?;
        key::signed_request(&self.wanted, spki, &signature).map_err(Unsigned::Other)
    }

    /// A new order. Who issued the certificate that is there is told that this is its successor (RFC 9773 §5), and may not want to know.
    async fn ask_for(
        &self,
        authority: &Authority,
        account: &instant_acme::Account,
        issued_by: Option<&str>,
    ) -> Result<Order, Error> {
        let identifiers = self.wanted.identifiers();
        let new = |replaces: Option<CertificateIdentifier<'static>>| {
            let new = NewOrder::new(&identifiers);
            let new = authority.config.profile.iter().fold(new, |new, profile| new.profile(profile));
            replaces.into_iter().fold(new, NewOrder::replaces)
        };
        let is_theirs = issued_by.is_some_and(|url| is_same_directory(url, &authority.config.url));
        let predecessor = self.replaces.clone().filter(|_| is_theirs);
        if predecessor.is_some() {
            let successor = new(predecessor);
            match patiently!(account.new_order(&successor)) {
                Ok(order) => return Ok(order),
                Err(error) => tracing::debug!("ordered as if it had no predecessor: {}", explain(&error)),
            }
        }
        let new = new(None);
        patiently!(account.new_order(&new))
    }

    async fn keep_record(&self, record: &Record) -> Result<(), String> {
        let (storage, wanted, record) = (self.storage.clone(), self.wanted.clone(), record.clone());
        let kept = tokio::task::spawn_blocking(move || storage.keep_record(&wanted, &record)).await;
        kept.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Removes from the DNS what was set there, also by a process before this one.
    async fn clean_up(&self, record: &mut Record) {
        if let (Some(txt), Some(zones)) = (record.txt.take(), &self.zones) {
            zones.remove(&txt).await;
        }
    }

    /// Proves all that is not proved yet. The proofs are there for as long as what is given back; what stands in the DNS is noted.
    async fn authorize(&self, order: &mut Order, client: &Client, record: &mut Record) -> Result<Vec<Showing>, String> {
        let mut published = Vec::new();
        if order.state().status != OrderStatus::Pending {
            return Ok(published);
        }
        let wanted = self.wanted.identifiers().len();
        if order.state().authorizations.len() != wanted {
            let found = order.state().authorizations.len();
            return Err(format!("the authority asks for {found} proofs of {wanted} names"));
        }
        patiently!(fetch_authorizations(order)).map_err(|error| explain(&error))?;
        let mut authorizations = order.authorizations();
        // All of them were fetched.
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization.map_err(|error| explain(&error))?;
            published.extend(self.prove(&mut authorization, client, record).await?);
        }
        Ok(published)
    }

    async fn prove<'a>(
        &self,
        authorization: &'a mut AuthorizationHandle<'a>,
        client: &Client,
        record: &mut Record,
    ) -> Result<Option<Showing>, String> {
        let asked = authorization.identifier();
        let (identifier, wildcard) = (asked.identifier.clone(), asked.wildcard);
        let name = shown(&asked.to_string());
        if !self.wanted.asks_for(&identifier, wildcard) {
            return Err(format!("the authority asks for a proof of {name}, which was not ordered"));
        }
        match authorization.status {
            AuthorizationStatus::Pending => {}
            AuthorizationStatus::Valid => return Ok(None),
            other => return Err(format!("the authorization of {name} is {other:?}")),
        }
        let offered = |kind: &&ChallengeKind| {
            let wanted = proof::type_of(**kind);
            proof::can_prove(**kind, &identifier, wildcard)
                && authorization.challenges.iter().any(|one| one.r#type == wanted)
        };
        let usable: Vec<ChallengeKind> = self.kinds.iter().filter(offered).copied().collect();
        let Some(kind) = usable.get(record.unproved as usize % usable.len().max(1)).copied() else {
            return Err(format!("the authority offers no challenge for {name} that is in `challenges`"));
        };
        let Some(mut challenge) = authorization.challenge(proof::type_of(kind)) else {
            return Err(format!("the challenge for {name} is gone"));
        };
        // What stands in the DNS for good has none.
        if kind != ChallengeKind::DnsPersist01 && !is_token(&challenge.token) {
            return Err(format!("the token of the challenge for {name} is malformed: {}", shown(&challenge.token)));
        }
        let published = match (kind, &identifier) {
            (ChallengeKind::DnsPersist01, Identifier::Dns(host)) => {
                client.standing_record(host, wildcard)?.look().await?;
                None
            }
            (ChallengeKind::Dns01, Identifier::Dns(host)) => {
                let value = challenge.key_authorization().dns_value();
                self.set_txt(TxtRecord::new(&host.to_ascii_lowercase(), value), record).await?;
                None
            }
            _ => {
                let proof = (challenge.token.as_str(), &challenge.key_authorization());
                Some(self.show(proof::of(kind, &identifier, proof)?).await?)
            }
        };
        tracing::debug!(name, challenge = kind.name(), "challenge published");
        // One of an order that was begun before may be under way.
        if challenge.status == ChallengeStatus::Pending {
            patiently!(challenge.set_ready()).map_err(|error| format!("{}: {}", kind.name(), explain(&error)))?;
        }
        Ok(published)
    }

    /// Shows a proof, here and on the other nodes, once all of them have it.
    async fn show(&self, proof: Proof) -> Result<Showing, String> {
        let here = proof.show(&self.challenges)?;
        let Some(peers) = self.peers.clone() else { return Ok(Box::new(here)) };
        let shown = tokio::task::spawn_blocking(move || peers.show(&proof)).await;
        let elsewhere = shown.unwrap_or_else(|error| Err(error.to_string()))?;
        Ok(Box::new((here, elsewhere)))
    }

    /// Sets a record in the DNS, after noting it on disk: whoever goes on with the order removes it.
    async fn set_txt(&self, txt: TxtRecord, record: &mut Record) -> Result<(), String> {
        let Some(zones) = &self.zones else { return Err("nothing says how records are set".to_owned()) };
        if let Some(before) = record.txt.replace(txt.clone()).filter(|before| *before != txt) {
            zones.remove(&before).await;
        }
        self.keep_record(record).await?;
        zones.set(&txt).await
    }

    /// Waits until all is proved, sends the request, and waits for the chain.
    async fn finish(&self, order: &mut Order, record: &mut Record) -> Result<String, Problem> {
        let looks =
            RetryPolicy::new().initial_delay(FIRST_LOOK).backoff(LOOKS_GROW).timeout(self.acme.options.order_timeout);
        if order.state().status == OrderStatus::Pending {
            let status = patiently!(order.poll_ready(&looks));
            match status {
                Ok(OrderStatus::Ready) => {}
                Ok(_) => return Err(Problem::unproved(self.why_invalid(order).await)),
                Err(Error::Api(problem)) => return Err(Problem::unproved(explain_problem(&problem))),
                Err(error) => return Err(explain(&error).into()),
            }
        }
        if order.state().status == OrderStatus::Ready {
            let request = self.request(record).await?;
            patiently!(order.finalize_csr(&request)).map_err(|error| explain(&error))?;
        }
        patiently!(order.poll_certificate(&looks)).map_err(|error| explain(&error).into())
    }

    /// What the authority says of the proofs of an order that it made invalid.
    async fn why_invalid(&self, order: &mut Order) -> String {
        let mut problems = Vec::new();
        let mut authorizations = order.authorizations();
        while let Some(Ok(mut authorization)) = authorizations.next().await {
            let Ok(state) = patiently!(authorization.refresh()) else { continue };
            let errors = state.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
            problems.extend(errors.map(explain_problem));
        }
        if problems.is_empty() { "the authority made the order invalid".to_owned() } else { problems.join("; ") }
    }
}

/// The key of an order that was begun.
fn key_of(record: &Record) -> Result<Zeroizing<String>, String> {
    let begun = record.order.as_ref().map(|begun| begun.key.clone());
    begun.ok_or_else(|| "the key of the order is not there".to_owned())
}

/// Has the state of each authorization there. What was fetched already is not fetched again.
async fn fetch_authorizations(order: &mut Order) -> Result<(), Error> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        authorization?;
    }
    Ok(())
}
