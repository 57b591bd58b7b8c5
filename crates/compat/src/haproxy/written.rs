//! What HAProxy has in its own file or in another form, and is a file natively: users with their passwords, pages for errors. They are written into the folder of
//! `--files`; without it nothing is written, and what needs them is left out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Making;
use super::acl::{Test, Users};
use super::rules::Rule;
use super::sections::{Kind, Proxy};
use crate::migration::absolute;
use crate::native::{Map, Value};

/// The cost of bcrypt: what `htpasswd -B` takes by default is less.
const COST: u32 = 10;

/// Longest password that bcrypt reads whole, bytes.
const MAX_PASSWORD: usize = 72;

/// Most users of all lists together.
const MAX_USERS: usize = 1_000;

/// Files that are written at the end.
#[derive(Debug, Default)]
pub(crate) struct Written {
    folder: Option<PathBuf>,
    files: BTreeMap<PathBuf, String>,
    /// What was written for a list of users already, since a hash is another one each time.
    users: BTreeMap<String, PathBuf>,
}

impl Written {
    /// Files in this folder; none are written without one.
    pub(crate) fn into(folder: Option<PathBuf>) -> Written {
        Written { folder, ..Written::default() }
    }

    /// Adds a file; its whole name.
    fn add(&mut self, name: &str, text: String) -> Result<PathBuf, String> {
        let folder = self.folder.as_ref().ok_or("it is a file natively, which `--files FOLDER` writes")?;
        let path = folder.join(name);
        self.files.insert(path.clone(), text);
        Ok(path)
    }

    /// Writes them, each readable for its owner alone.
    ///
    /// # Errors
    /// Which one could not be written, and why.
    pub(crate) fn write(&self) -> Result<(), String> {
        if let Some(folder) = self.folder.as_ref().filter(|_| !self.files.is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        for (path, text) in &self.files {
            keystore::files::replace(path, text.as_bytes()).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }
}

impl Making<'_> {
    /// The policy for users of the list that a rule asks about.
    pub(crate) fn passwords(&mut self, rule: &Rule, realm: &str) -> Result<Map, String> {
        let users: Vec<&Users> = rule
            .condition
            .tests()
            .filter_map(|test| if let Test::User(users) = test { Some(users) } else { None })
            .collect();
        let users = match users.as_slice() {
            [first, rest @ ..] if rest.iter().all(|other| other == first) => (*first).clone(),
            [] => return Err("whose password it is to be is not said".to_owned()),
            _ => return Err("users of several lists".to_owned()),
        };
        if !realm.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') || realm.contains(['"', '\\', '%']) {
            return Err("its realm cannot be carried".to_owned());
        }
        let key = format!("{}/{}", users.list, users.groups.join(","));
        let file = match self.written.users.get(&key) {
            Some(file) => file.clone(),
            None => {
                let text = self.hashes(&users)?;
                let name = match users.groups.as_slice() {
                    [] => format!("{}.users", users.list),
                    groups => format!("{}-{}.users", users.list, groups.join("-")),
                };
                let file = self.written.add(&name.replace('/', "-"), text)?;
                self.written.users.insert(key, file.clone());
                file
            }
        };
        let native = Map::of([("file", Value::text(absolute(&file))), ("realm", Value::text(realm))]);
        let mut policy = Map::of([("basic", native.into())]);
        policy.comment(format!("{}: {}", rule.place, rule.shown));
        Ok(policy)
    }

    /// Lines of a file of users.
    fn hashes(&self, users: &Users) -> Result<String, String> {
        // Nothing is hashed that nobody will have.
        if self.written.folder.is_none() {
            return Err("passwords are read from a file with bcrypt hashes, which `--files FOLDER` writes".to_owned());
        }
        let section = self.users.iter().find(|section| section.name == users.list);
        let section = section.ok_or_else(|| format!("there is no userlist `{}`", users.list))?;
        let members = |group: &String| {
            let line = section.lines.iter().find(|line| line.word(0) == "group" && line.word(1) == group);
            line.and_then(|line| line.after("users")).unwrap_or_default().to_owned()
        };
        let of_groups: Vec<String> = users.groups.iter().map(members).collect();
        let mut out = String::new();
        for line in section.lines.iter().filter(|line| line.word(0) == "user").take(MAX_USERS) {
            let name = line.word(1);
            let own = line.after("groups").unwrap_or_default();
            let is_member = users.groups.is_empty()
                || own.split(',').any(|group| users.groups.iter().any(|wanted| wanted == group))
                || of_groups.iter().any(|all| all.split(',').any(|member| member == name));
            if !is_member {
                continue;
            }
            if name.contains(':') || name.starts_with('#') || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(format!("the user `{name}` has a name that cannot be written"));
            }
            let hash = match (line.after("insecure-password"), line.after("password")) {
                (Some(plain), _) if plain.len() <= MAX_PASSWORD => {
                    bcrypt::hash(plain, COST).map_err(|error| format!("the password of `{name}`: {error}"))?
                }
                (Some(_), _) => return Err(format!("the password of `{name}` is longer than {MAX_PASSWORD} bytes")),
                (None, Some(hash)) if ["$2y$", "$2b$", "$2a$"].iter().any(|start| hash.starts_with(start)) => {
                    hash.to_owned()
                }
                _ => return Err(format!("the password of `{name}` is no bcrypt hash; make one with `htpasswd -B`")),
            };
            out.push_str(&format!("{name}:{hash}\n"));
        }
        match out.is_empty() {
            true => Err(format!("nobody is in the userlist `{}`", users.list)),
            false => Ok(out),
        }
    }

    /// The pages of `errorfile` at a proxy.
    pub(crate) fn error_pages(&mut self, proxy: &Proxy) -> Option<String> {
        let lines: Vec<_> = proxy.all("errorfile").cloned().collect();
        let mut pages: BTreeMap<u16, Map> = BTreeMap::new();
        let mut comments = Vec::new();
        for line in lines {
            match self.page(&proxy.name, line.word(1), line.word(2)) {
                Ok((status, page)) => _ = pages.insert(status, page),
                Err(why) => comments.push(self.report.left_out(&line.place, &line.shown(), &why)),
            }
        }
        comments.into_iter().for_each(|comment| self.draft.comment(comment));
        // A server that cannot be reached is 502 here, and 503 there.
        if let Some(page) = pages.get(&503).cloned() {
            pages.entry(502).or_insert(page);
        }
        if pages.is_empty() {
            return None;
        }
        let mut native = Map::default();
        pages.into_iter().for_each(|(status, page)| native.set(&status.to_string(), page));
        Some(self.draft.error_pages.intern("errors", Map::of([("pages", native.into())])))
    }

    /// The pages of a backend, where they are others than those of the frontend.
    pub(crate) fn pages_of_backend(&mut self, name: &str, front: usize) -> Option<String> {
        let back = self.proxies.iter().find(|proxy| proxy.name == name && proxy.kind != Kind::Frontend)?.clone();
        let own = |proxy: &Proxy| proxy.all("errorfile").map(|line| line.rest(1).to_vec()).collect::<Vec<_>>();
        let is_other = self.proxies.get(front).is_some_and(|front| own(front) != own(&back));
        if is_other { self.error_pages(&back) } else { None }
    }

    /// One `errorfile`, which holds a whole response.
    fn page(&mut self, proxy: &str, code: &str, file: &str) -> Result<(u16, Map), String> {
        let status = code.parse::<u16>().ok().filter(|status| (400..600).contains(status));
        let status = status.ok_or("only errors have pages")?;
        let text =
            self.files.read(&self.root.join(Path::new(file))).map_err(|why| why.to_string())?.replace("\r\n", "\n");
        let (head, body) = text.split_once("\n\n").ok_or("it holds no whole response")?;
        let (first, fields) = head.split_once('\n').unwrap_or((head, ""));
        if !first.starts_with("HTTP/1.") || first.split(' ').nth(1) != Some(code) {
            return Err("its response has another status".to_owned());
        }
        let media = fields.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-type").then(|| value.trim().to_ascii_lowercase())
        });
        let media = media.unwrap_or_default();
        let (key, ending) = match media.split(';').next().unwrap_or_default() {
            "text/html" => ("html", "html"),
            "text/plain" => ("text", "txt"),
            _ => return Err("a page is HTML or text".to_owned()),
        };
        if body.contains("{{") {
            return Err("two braces have a meaning in pages".to_owned());
        }
        let name = format!("{proxy}-{status}.{ending}").replace('/', "-");
        let written = self.written.add(&name, body.to_owned())?;
        Ok((status, Map::of([(key, Value::text(absolute(&written)))])))
    }
}
