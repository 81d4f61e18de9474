// In light colours always: the theme turns the diagrams of dark pages.
mermaid.initialize({ theme: "neutral" });
