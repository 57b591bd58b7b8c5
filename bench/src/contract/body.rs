//! Bodies like the ones that API firewalls were measured with: a forum's list of users and topics, in five sizes, and the strict document for them.
//!
//! Made from a fixed seed, so that every run posts the same bytes.

use fastrand::Rng;
use serde_json::{Value, json};

/// A size of body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    /// For file names and `--only`.
    pub(crate) name: &'static str,
    users: usize,
    topics: usize,
    /// Members of a topic beyond the required ones.
    is_small: bool,
}

/// All sizes; the names say about how large they are.
pub(crate) const SIZES: [Size; 5] = [
    Size { name: "190B", users: 0, topics: 0, is_small: true },
    Size { name: "2.3kB", users: 3, topics: 2, is_small: false },
    Size { name: "27.5kB", users: 32, topics: 30, is_small: false },
    Size { name: "630kB", users: 740, topics: 690, is_small: false },
    Size { name: "2MB", users: 2350, topics: 2190, is_small: false },
];

/// The body of a size.
pub(crate) fn body(size: Size) -> Vec<u8> {
    let mut random = Rng::with_seed(19);
    let users: Vec<Value> = (0..size.users).map(|number| user(number, &mut random)).collect();
    let topics: Vec<Value> = (0..size.topics).map(|number| topic(number, &mut random)).collect();
    let list = json!({
        "can_create_topic": false,
        "more_topics_url": if size.is_small { "/latest?no_definitions=true&page=1" } else { "/c/general/uncategorized/l/latest?no_definitions=true&page=1" },
        "draft": null,
        "draft_key": "new_topic",
        "draft_sequence": null,
        "per_page": 30,
        "topics": topics,
    });
    json!({ "users": users, "topics": list }).to_string().into_bytes()
}

fn word(random: &mut Rng) -> String {
    let length = random.usize(3..10);
    (0..length).map(|_| random.lowercase()).collect()
}

fn words(count: usize, random: &mut Rng) -> String {
    (0..count).map(|_| word(random)).collect::<Vec<_>>().join(" ")
}

fn user(number: usize, random: &mut Rng) -> Value {
    let name = word(random);
    json!({
        "id": number + 1,
        "username": format!("{name}_{number}"),
        "avatar_template": format!("/letter_avatar/{name}_{number}/{{size}}/5_{:08x}.png", random.u32(..)),
    })
}

fn date(random: &mut Rng) -> String {
    format!(
        "201{}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        random.u8(3..7),
        random.u8(1..13),
        random.u8(1..29),
        random.u8(0..24),
        random.u8(0..60),
        random.u8(0..60),
        random.u16(0..1000)
    )
}

fn topic(number: usize, random: &mut Rng) -> Value {
    let title = words(5, random);
    let poster = |index: usize, random: &mut Rng| {
        json!({
            "extras": if index == 0 { json!("latest single") } else { Value::Null },
            "description": if index == 0 { "Original Poster, Most Recent Poster" } else { "Frequent Poster" },
            "user_id": random.u32(1..4_000),
        })
    };
    let posters: Vec<Value> = (0..1 + number % 4).map(|index| poster(index, random)).collect();
    let mut topic = json!({
        "id": number + 1,
        "title": title,
        "fancy_title": title,
        "slug": title.replace(' ', "-"),
        "posts_count": random.u32(1..300),
        "reply_count": random.u32(0..200),
        "highest_post_number": random.u32(1..300),
        "image_url": null,
        "created_at": date(random),
        "last_posted_at": date(random),
        "bumped": true,
        "bumped_at": date(random),
        "unseen": false,
        "pinned": false,
        "unpinned": null,
        "visible": true,
        "closed": number.is_multiple_of(7),
        "archived": false,
        "bookmarked": null,
        "liked": null,
        "views": random.u32(0..100_000),
        "like_count": random.u32(0..1_000),
        "has_summary": false,
        "archetype": "regular",
        "last_poster_username": word(random),
        "category_id": random.u32(1..20),
        "pinned_globally": false,
        "posters": posters,
    });
    if number.is_multiple_of(12) {
        topic["excerpt"] = words(12, random).into();
    }
    topic
}

/// The document: every field named, typed and bounded, nothing else allowed. `largest` bounds the lists.
pub(crate) fn document() -> String {
    let text = |most: u32| json!({ "type": "string", "maxLength": most });
    let nullable = |most: u32| json!({ "type": ["string", "null"], "maxLength": most });
    let count = json!({ "type": "integer", "minimum": 0, "maximum": 100_000_000 });
    let flag = json!({ "type": "boolean" });
    let maybe = json!({ "type": ["boolean", "null"] });
    let moment = json!({ "type": "string", "format": "date-time", "maxLength": 40 });
    let closed = |properties: Value, optional: &[&str]| {
        let required: Vec<String> = properties
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name.clone())
            .filter(|name| !optional.contains(&name.as_str()))
            .collect();
        json!({ "type": "object", "additionalProperties": false, "required": required, "properties": properties })
    };
    let list = |items: Value| json!({ "type": "array", "maxItems": 10_000, "items": items });
    let user = closed(
        json!({
            "id": count,
            "username": { "type": "string", "minLength": 1, "maxLength": 60, "pattern": "^[a-z0-9_]+$" },
            "avatar_template": text(200),
        }),
        &[],
    );
    let poster = closed(json!({ "extras": nullable(60), "description": text(200), "user_id": count }), &[]);
    let mut topic = serde_json::Map::new();
    let mut add = |names: &[&str], schema: &Value| {
        names.iter().for_each(|name| _ = topic.insert((*name).to_owned(), schema.clone()))
    };
    add(&["title", "fancy_title", "slug", "excerpt"], &text(500));
    add(&["last_poster_username"], &text(60));
    add(&["archetype"], &json!({ "type": "string", "enum": ["regular", "banner", "private_message"] }));
    add(&["id", "posts_count", "reply_count", "highest_post_number", "views", "like_count", "category_id"], &count);
    add(&["image_url"], &nullable(200));
    add(&["created_at", "last_posted_at", "bumped_at"], &moment);
    add(&["bumped", "unseen", "pinned", "visible", "closed", "archived", "has_summary", "pinned_globally"], &flag);
    add(&["unpinned", "bookmarked", "liked"], &maybe);
    add(&["posters"], &json!({ "type": "array", "maxItems": 5, "items": poster }));
    let topics = closed(
        json!({
            "can_create_topic": flag,
            "more_topics_url": text(200),
            "draft": nullable(1_000),
            "draft_key": text(60),
            "draft_sequence": { "type": ["integer", "null"], "minimum": 0, "maximum": 1_000_000 },
            "per_page": { "type": "integer", "minimum": 1, "maximum": 100 },
            "topics": list(closed(Value::Object(topic), &["excerpt"])),
        }),
        &[],
    );
    let body =
        json!({ "application/json": { "schema": closed(json!({ "users": list(user), "topics": topics }), &[]) } });
    let response = closed(json!({ "status": { "type": "string", "enum": ["success"] } }), &[]);
    let post = |response: &Value| {
        let responses = json!({ "200": { "description": "done", "content": response } });
        json!({ "post": { "requestBody": { "required": true, "content": body }, "responses": responses } })
    };
    let response = json!({ "application/json": { "schema": response } });
    let paths = json!({ "/test/signup": post(&response), "/echo": post(&body) });
    json!({ "openapi": "3.1.0", "info": { "title": "Forum", "version": "1" }, "paths": paths }).to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn bodies_are_about_as_large_as_their_names_say() {
        for (size, expected) in SIZES.iter().zip([190, 2_300, 27_500, 630_000, 2_000_000]) {
            let length = body(*size).len();
            assert!(length * 10 >= expected * 9 && length * 10 <= expected * 11, "{}: {length}", size.name);
            assert_eq!(body(*size), body(*size));
        }
    }
}
