seq 10 | sed 's/$/\r/' > f
