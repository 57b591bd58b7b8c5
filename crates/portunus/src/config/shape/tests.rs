//! The shape against itself: objects are listed, defaults are true, fixtures satisfy the schema.
