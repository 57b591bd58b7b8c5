//! The bodies and their strict schemas: a list of forum topics with users, at several sizes, and one sign-up. Made from a seed, so always the same.

use std::fmt::Write;

/// Name, schema, body.
pub fn all() -> Vec<(&'static str, &'static str, String)> {
    let mut made = vec![("190 B", SIGN_UP, sign_up()), ("2.3 kB", TOPICS, topics(2, 2))];
    made.extend(
        [("27.5 kB", 32, 30), ("630 kB", 730, 690), ("2 MB", 2350, 2220)]
            .map(|(name, users, count)| (name, TOPICS, topics(users, count))),
    );
    made
}

const SIGN_UP: &str = r#"{
  "type": "object", "additionalProperties": false, "required": ["name", "email", "age", "country", "tags", "terms"],
  "properties": {
    "name": {"type": "string", "minLength": 1, "maxLength": 64},
    "email": {"type": "string", "format": "email", "maxLength": 254},
    "age": {"type": "integer", "minimum": 0, "maximum": 150},
    "country": {"type": "string", "pattern": "^[A-Z]{2}$"},
    "tags": {"type": "array", "maxItems": 8, "items": {"type": "string", "enum": ["news", "offers", "events"]}},
    "terms": {"const": true},
    "referrer": {"type": ["string", "null"], "format": "uri"}
  }
}"#;

fn sign_up() -> String {
    r#"{"name":"Ada Example","email":"ada.example@mail.example.org","age":36,"country":"GB","tags":["news","events"],"terms":true,"referrer":"https://forum.example.org/t/welcome-to-the-forum/31"}"#.to_owned()
}

const TOPICS: &str = r##"{
  "type": "object", "additionalProperties": false, "required": ["users", "topics"],
  "properties": {
    "users": {"type": "array", "maxItems": 5000, "items": {"$ref": "#/$defs/user"}},
    "topics": {
      "type": "object", "additionalProperties": false,
      "required": ["can_create_topic", "more_topics_url", "draft", "draft_key", "draft_sequence", "per_page", "topics"],
      "properties": {
        "can_create_topic": {"type": "boolean"},
        "more_topics_url": {"type": "string", "maxLength": 200},
        "draft": {"type": ["string", "null"]},
        "draft_key": {"type": "string", "maxLength": 50},
        "draft_sequence": {"type": ["integer", "null"]},
        "per_page": {"type": "integer", "minimum": 1, "maximum": 100},
        "topics": {"type": "array", "maxItems": 5000, "items": {"$ref": "#/$defs/topic"}}
      }
    }
  },
  "$defs": {
    "id": {"type": "integer", "minimum": 1, "maximum": 2147483647},
    "count": {"type": "integer", "format": "int32", "minimum": 0},
    "user": {
      "type": "object", "additionalProperties": false, "required": ["id", "username", "avatar_template"],
      "properties": {
        "id": {"$ref": "#/$defs/id"},
        "username": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,60}$"},
        "avatar_template": {"type": "string", "minLength": 1, "maxLength": 200}
      }
    },
    "poster": {
      "type": "object", "additionalProperties": false, "required": ["extras", "description", "user_id"],
      "properties": {
        "extras": {"type": ["string", "null"], "maxLength": 40},
        "description": {"type": "string", "maxLength": 100},
        "user_id": {"$ref": "#/$defs/id"}
      }
    },
    "topic": {
      "type": "object", "additionalProperties": false,
      "required": ["id", "title", "fancy_title", "slug", "posts_count", "reply_count", "created_at", "posters"],
      "properties": {
        "id": {"$ref": "#/$defs/id"},
        "title": {"type": "string", "minLength": 1, "maxLength": 255},
        "fancy_title": {"type": "string", "minLength": 1, "maxLength": 300},
        "slug": {"type": "string", "pattern": "^[a-z0-9-]{1,255}$"},
        "posts_count": {"$ref": "#/$defs/count"},
        "reply_count": {"$ref": "#/$defs/count"},
        "highest_post_number": {"$ref": "#/$defs/count"},
        "image_url": {"type": ["string", "null"], "maxLength": 500},
        "created_at": {"type": "string", "format": "date-time"},
        "last_posted_at": {"type": ["string", "null"], "format": "date-time"},
        "bumped": {"type": "boolean"},
        "bumped_at": {"type": "string", "format": "date-time"},
        "unseen": {"type": "boolean"},
        "last_read_post_number": {"$ref": "#/$defs/count"},
        "unread": {"$ref": "#/$defs/count"},
        "new_posts": {"$ref": "#/$defs/count"},
        "pinned": {"type": "boolean"},
        "unpinned": {"type": ["boolean", "null"]},
        "excerpt": {"type": "string", "maxLength": 2000},
        "visible": {"type": "boolean"},
        "closed": {"type": "boolean"},
        "archived": {"type": "boolean"},
        "notification_level": {"type": "integer", "enum": [0, 1, 2, 3]},
        "bookmarked": {"type": "boolean"},
        "liked": {"type": "boolean"},
        "views": {"$ref": "#/$defs/count"},
        "like_count": {"$ref": "#/$defs/count"},
        "has_summary": {"type": "boolean"},
        "archetype": {"enum": ["regular", "banner", "private_message"]},
        "last_poster_username": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,60}$"},
        "category_id": {"$ref": "#/$defs/id"},
        "pinned_globally": {"type": "boolean"},
        "posters": {"type": "array", "maxItems": 5, "items": {"$ref": "#/$defs/poster"}}
      }
    }
  }
}"##;

const WORDS: &[&str] = &[
    "gate", "harbour", "river", "key", "door", "bridge", "lantern", "market", "stone", "garden", "letter", "winter",
    "copper", "signal",
];

struct Author {
    random: fastrand::Rng,
    text: String,
}

fn topics(users: usize, topics: usize) -> String {
    let mut author = Author { random: fastrand::Rng::with_seed(4), text: String::new() };
    author.text.push_str("{\"users\":[");
    for user in 0..users {
        author.user(user);
    }
    author.close_list();
    author.text.push_str(
        ",\"topics\":{\"can_create_topic\":false,\"more_topics_url\":\"/c/general/l/latest?page=1\",\"draft\":null,\
         \"draft_key\":\"new_topic\",\"draft_sequence\":null,\"per_page\":30,\"topics\":[",
    );
    for topic in 0..topics {
        author.topic(topic);
    }
    author.close_list();
    author.text.push_str("}}");
    author.text
}

impl Author {
    /// Ends a list whose elements each end with a comma.
    fn close_list(&mut self) {
        if self.text.ends_with(',') {
            self.text.pop();
        }
        self.text.push(']');
    }

    fn words(&mut self, count: usize, between: &str) -> String {
        (0..count).map(|_| WORDS[self.random.usize(0..WORDS.len())]).collect::<Vec<_>>().join(between)
    }

    fn time(&mut self) -> String {
        let random = &mut self.random;
        let (month, day, hour, minute) = (random.u8(1..13), random.u8(1..29), random.u8(0..24), random.u8(0..60));
        format!("2016-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}.{:03}Z", random.u8(0..60), random.u16(0..1000))
    }

    fn user(&mut self, number: usize) {
        let name = format!("{}{number}", self.words(1, ""));
        let id = self.random.u32(1..60000);
        write!(
            self.text,
            "{{\"id\":{id},\"username\":\"{name}\",\"avatar_template\":\"/user_avatar/forum.example.org/{name}/{{size}}/{id}_1.png\"}},"
        )
        .unwrap();
    }

    fn topic(&mut self, number: usize) {
        let title = self.words(5, " ");
        let slug = title.replace(' ', "-");
        let (created, posted, bumped) = (self.time(), self.time(), self.time());
        let random = &mut self.random;
        let (posts, replies, views, likes) =
            (random.u16(1..300), random.u16(0..200), random.u32(0..90000), random.u16(0..99));
        let (id, category, closed) = (random.u32(1..90000), random.u8(1..40), random.bool());
        let poster = self.words(1, "");
        write!(
            self.text,
            "{{\"id\":{id},\"title\":\"{title}\",\"fancy_title\":\"{title}\",\"slug\":\"{slug}\",\"posts_count\":{posts},\"reply_count\":{replies},\
             \"highest_post_number\":{posts},\"image_url\":null,\"created_at\":\"{created}\",\"last_posted_at\":\"{posted}\",\"bumped\":true,\
             \"bumped_at\":\"{bumped}\",\"unseen\":false,"
        )
        .unwrap();
        if number.is_multiple_of(6) {
            write!(self.text, "\"last_read_post_number\":{posts},\"unread\":0,\"new_posts\":0,").unwrap();
        }
        write!(self.text, "\"pinned\":{},\"unpinned\":null,", number == 0).unwrap();
        if number == 0 {
            let excerpt = self.words(30, " ");
            write!(self.text, "\"excerpt\":\"{excerpt} \\u2026 &hellip;\",").unwrap();
        }
        write!(
            self.text,
            "\"visible\":true,\"closed\":{closed},\"archived\":false,\"notification_level\":1,\"bookmarked\":false,\"liked\":false,\
             \"views\":{views},\"like_count\":{likes},\"has_summary\":false,\"archetype\":\"regular\",\"last_poster_username\":\"{poster}\",\
             \"category_id\":{category},\"pinned_globally\":false,\"posters\":["
        )
        .unwrap();
        self.posters();
        self.text.push_str("]},");
    }

    fn posters(&mut self) {
        let count = self.random.usize(2..6);
        for place in 0..count {
            let extras = if place == 0 { "\"latest\"" } else { "null" };
            let description = if place == 0 { "Original Poster" } else { "Frequent Poster" };
            let id = self.random.u32(1..60000);
            write!(self.text, "{{\"extras\":{extras},\"description\":\"{description}\",\"user_id\":{id}}},").unwrap();
        }
        self.text.pop();
    }
}
