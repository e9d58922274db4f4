//! Matches the queries of a client with the contexts of an export.

use crate::wire::{STRING_BYTES, WireFields};

/// Names the purpose of a query.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum QueryKind {
    /// To see which contexts there are: a namespace alone means all in it, no query means all.
    List,
    /// To choose some, each by its whole name.
    Set,
}

/// The queries of an option, which were found to be well formed.
pub(super) struct ContextQueries<'a> {
    count: u32,
    fields: WireFields<'a>,
}

impl<'a> ContextQueries<'a> {
    /// The name of an export and the queries, or what is wrong with them.
    pub fn parse(data: &'a [u8]) -> Result<(&'a [u8], Self), &'static str> {
        const BAD: &str =
            "the data are the length of a name, the name, a number, and so many queries, each after its length";
        let mut fields = WireFields(data);
        let name = fields.string().ok_or(BAD)?;
        let count = fields.u32().ok_or(BAD)?;
        if name.len() > STRING_BYTES {
            return Err("the name has more than 4096 bytes");
        }
        let queries = Self { count, fields };
        // All queries are checked before the first is answered: a refusal after half an answer would be no valid
        // reply.
        for _ in 0..count {
            let query = fields.string().ok_or(BAD)?;
            if query.len() > STRING_BYTES || query.contains(&0) || std::str::from_utf8(query).is_err() {
                return Err("a query is not text of at most 4096 bytes");
            }
            if !query.contains(&b':') || query[0] == b':' {
                return Err("a query is not NAMESPACE:NAME");
            }
        }
        if fields.is_empty() { Ok((name, queries)) } else { Err(BAD) }
    }

    fn iter(&self) -> impl Iterator<Item = &'a [u8]> {
        let mut fields = self.fields;
        (0..self.count).map_while(move |_| fields.string())
    }

    /// Returns the contexts that the queries match, each once, with their numbers. Unknown ones are ignored.
    pub fn matching<'c>(&self, contexts: &'c [String], wanted: QueryKind) -> impl Iterator<Item = (usize, &'c str)> {
        let all = wanted == QueryKind::List && self.count == 0;
        contexts.iter().map(String::as_str).enumerate().filter(move |(_, context)| {
            let means = |query: &[u8]| {
                query == context.as_bytes()
                    // A namespace alone lists all its contexts, but choosing wants whole names.
                    || wanted == QueryKind::List && query.ends_with(b":") && context.as_bytes().starts_with(query)
            };
            all || self.iter().any(means)
        })
    }
}
