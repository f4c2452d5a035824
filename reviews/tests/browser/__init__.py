"""The browser lane: people at real pages, in a real Chromium, on a desk that runs as processes of its own."""
