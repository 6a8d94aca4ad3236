// Sends a file as the body of a request, because that needs no form encoding on the server.
for (const form of document.querySelectorAll('form.upload')) {
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const file = form.elements.file.files[0];
    const alert = form.querySelector('[role="alert"]');
    const button = form.querySelector('button');
    const say = (text) => { alert.textContent = text; alert.hidden = false; };
    button.disabled = true;
    try {
      const path = `/api/cases/${form.dataset.case}/documents?name=${encodeURIComponent(file.name)}`;
      const answer = await fetch(path, {
        method: 'POST', body: file,
        headers: { 'content-type': file.type || 'application/octet-stream' },
      });
      if (answer.ok) {
        location.reload();
      } else if (answer.status === 413) {
        say('The file is too large for this server.');
      } else {
        // The page of a proxy, such as 502, has no reason.
        const reason = await answer.json().catch(() => ({}));
        say(reason.why ?? `The server answers with ${answer.status}. Load the page again to see `
          + 'whether the file is there.');
      }
    } catch {
      say('The server cannot be reached. Try again.');
    } finally {
      button.disabled = false;
    }
  });
}
