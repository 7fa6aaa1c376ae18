//! As much of JSON Schema as `docs/schemas` uses. Stricter in one thing: what is not described is a fault, so that a new field does
//! not stay out of the schema.

use serde_json::Value;

/// What of a document is not as its schema says.
#[must_use]
pub fn faults(schema: &Value, document: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    Check { root: schema, faults: &mut faults }.value(schema, document, "");
    faults
}

/// Fails unless a document is as the schema of this name says.
#[track_caller]
pub fn expect(name: &str, document: &Value) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schemas").join(name).with_extension("json");
    let read = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let faults = faults(&serde_json::from_str(&read).expect("a schema is JSON"), document);
    assert!(faults.is_empty(), "it is not as {name}.json says: {faults:#?}\n{document}");
}

struct Check<'a> {
    root: &'a Value,
    faults: &'a mut Vec<String>,
}

impl Check<'_> {
    fn value(&mut self, schema: &Value, value: &Value, at: &str) {
        if let Some(name) = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/")) {
            return self.value(&self.root["$defs"][name], value, at);
        }
        if let Some(branches) = schema["anyOf"].as_array() {
            let fits = |branch: &Value| {
                let mut faults = Vec::new();
                Check { root: self.root, faults: &mut faults }.value(branch, value, at);
                faults.is_empty()
            };
            if !branches.iter().any(fits) {
                self.faults.push(format!("{at} is none of what it may be: {value}"));
            }
            return;
        }
        if let Some(allowed) = schema["enum"].as_array()
            && !allowed.contains(value)
        {
            self.faults.push(format!("{at} is none of the listed values: {value}"));
        }
        let of_type = |name: &Value| name.as_str().is_some_and(|name| is_of_type(value, name));
        let is_allowed = match &schema["type"] {
            Value::Null => true,
            Value::Array(names) => names.iter().any(of_type),
            name => of_type(name),
        };
        if !is_allowed {
            self.faults.push(format!("{at} is not of type {}: {value}", schema["type"]));
        }
        match value {
            Value::Object(fields) => {
                for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                    if !fields.contains_key(name) {
                        self.faults.push(format!("{at}.{name} is missing"));
                    }
                }
                for (name, field) in fields {
                    let at = format!("{at}.{name}");
                    match (schema["properties"].get(name), schema.get("additionalProperties")) {
                        (Some(described), _) | (None, Some(described)) => self.value(described, field, &at),
                        (None, None) if schema.get("properties").is_some() => self.faults.push(format!("{at} is not described")),
                        (None, None) => {}
                    }
                }
            }
            Value::Array(items) if schema.get("items").is_some() => {
                items.iter().enumerate().for_each(|(index, item)| self.value(&schema["items"], item, &format!("{at}[{index}]")));
            }
            _ => {}
        }
    }
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_fault_is_found() {
        let schema = json!({
            "type": "object",
            "properties": {
                "name": { "$ref": "#/$defs/path" },
                "size": { "type": ["integer", "null"] },
                "kind": { "enum": ["a", null] },
                "list": { "type": "array", "items": { "type": "boolean" } },
                "labels": { "type": "object", "additionalProperties": { "type": "string" } },
            },
            "required": ["name"],
            "$defs": { "path": { "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "integer" } }] } },
        });
        let sound = json!({ "name": [97, 255], "size": null, "kind": "a", "list": [true], "labels": { "x": "y" } });
        assert_eq!(faults(&schema, &sound), Vec::<String>::new());
        for (wrong, fault) in [
            (json!([]), "is not of type \"object\""),
            (json!({}), ".name is missing"),
            (json!({ "name": 1 }), ".name is none of what it may be"),
            (json!({ "name": "x", "size": 1.5 }), ".size is not of type"),
            (json!({ "name": "x", "kind": "b" }), ".kind is none of the listed values"),
            (json!({ "name": "x", "list": [1] }), ".list[0] is not of type"),
            (json!({ "name": "x", "labels": { "a": 1 } }), ".labels.a is not of type"),
            (json!({ "name": "x", "more": 1 }), ".more is not described"),
        ] {
            let found = faults(&schema, &wrong);
            assert!(found.len() == 1 && found[0].contains(fault), "{wrong}: {found:?}");
        }
    }
}
