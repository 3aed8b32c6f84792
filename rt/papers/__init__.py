"""Every table and figure of five works, redrawn from kept results with the work's own values beside ours."""
