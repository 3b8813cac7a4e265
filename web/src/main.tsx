import { TransportProvider } from '@connectrpc/connect-query'
import { QueryCache, QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { BrowserRouter } from 'react-router'
import { App } from './app/App'
import { failureOf } from './hub/errors'
import { transport } from './hub/transport'
import { every } from './live/asked'
import './ui/tokens.css'
import './ui/ui.css'

// Pages that nobody sees ask nothing. What failed is asked again with the next round.
const queries: QueryClient = new QueryClient({
  // Whatever learns first that the session is over has the page ask for a login.
  queryCache: new QueryCache({
    onError: (e, query) => {
      if (query.queryKey[0] !== 'session' && failureOf(e).signedOut)
        void queries.invalidateQueries({ queryKey: ['session'] })
    },
  }),
  defaultOptions: {
    queries: {
      refetchInterval: every,
      refetchOnWindowFocus: 'always',
      retry: false,
      staleTime: 1_000,
      networkMode: 'always',
    },
    mutations: { retry: false, networkMode: 'always' },
  },
})

const root = document.getElementById('root')
if (root)
  createRoot(root).render(
    <StrictMode>
      <TransportProvider transport={transport}>
        <QueryClientProvider client={queries}>
          <BrowserRouter>
            <App />
          </BrowserRouter>
        </QueryClientProvider>
      </TransportProvider>
    </StrictMode>,
  )
