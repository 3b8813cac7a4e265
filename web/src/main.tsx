import { TransportProvider } from '@connectrpc/connect-query'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { BrowserRouter } from 'react-router'
import { App } from './app/App'
import { transport } from './hub/transport'
import { every } from './live/asked'
import './ui/tokens.css'
import './ui/ui.css'

// Pages that nobody sees ask nothing. What failed is asked again with the next round.
const queries = new QueryClient({
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
