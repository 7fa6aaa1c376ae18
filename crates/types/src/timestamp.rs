//! Points in time as people and programs read them.

/// `2026-11-15T01:39:00Z`, from milliseconds since 1970.
#[must_use]
pub fn rfc3339(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// Days since 1970 to year, month and day, in 400-year eras that begin on 1 March.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// How long ago, in the largest unit that fits: `3s`, `12m`, `5h`, `9d`.
#[must_use]
pub fn age(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// How long until something happens, to the nearest unit that tells enough: `soon`, `40s`, `90m`, `14d`.
#[must_use]
pub fn roughly(milliseconds: u64) -> String {
    let in_units_of = |unit: u64| milliseconds.saturating_add(unit / 2) / unit;
    match milliseconds {
        0..500 => "soon".to_owned(),
        500..59_500 => format!("{}s", in_units_of(1000)),
        59_500..5_970_000 => format!("{}m", in_units_of(60_000)),
        5_970_000..171_000_000 => format!("{}h", in_units_of(3_600_000)),
        _ => format!("{}d", in_units_of(86_400_000)),
    }
}

/// How long something still has, in at most two units: `1h59m`.
#[must_use]
pub fn countdown(milliseconds: u64) -> String {
    let seconds = milliseconds.div_ceil(1000);
    let two = |big: u64, small: u64, names: (&str, &str)| match (seconds / big, seconds % big / small) {
        (whole, 0) => format!("{whole}{}", names.0),
        (whole, rest) => format!("{whole}{}{rest}{}", names.0, names.1),
    };
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => two(60, 1, ("m", "s")),
        3600..86_400 => two(3600, 60, ("h", "m")),
        _ => two(86_400, 3600, ("d", "h")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_400_000), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_794_706_740_000), "2026-11-15T01:39:00Z");
    }

    #[test]
    fn countdowns() {
        let shown = [(0, "0s"), (900, "1s"), (90_000, "1m30s"), (7_197_000, "1h59m"), (7_200_000, "2h"), (90_000_000, "1d1h")];
        for (milliseconds, text) in shown {
            assert_eq!(countdown(milliseconds), text);
        }
    }

    #[test]
    fn what_is_to_come_is_told_to_the_nearest_unit() {
        let (minute, hour, day) = (60_000, 3_600_000, 86_400_000);
        for (ms, told) in [
            (0, "soon"),
            (1, "soon"),
            (40_000, "40s"),
            (minute - 1, "1m"),
            (90 * minute, "90m"),
            (2 * hour - 1, "2h"),
            (47 * hour, "47h"),
            (2 * day - 1, "2d"),
            (14 * day - 5000, "14d"),
        ] {
            assert_eq!(roughly(ms), told);
        }
    }

    #[test]
    fn ages() {
        assert_eq!(
            (age(59_000), age(60_000), age(7_200_000), age(172_800_000)),
            ("59s".into(), "1m".into(), "2h".into(), "2d".into())
        );
    }
}
